"use strict";

// Tables: a click on a heading sorts by its column, a second click reverses.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[column].dataset.value;
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => compare(key(a), key(b), down ? -1 : 1));
      table.tBodies[0].append(...rows);
    });
  });
}

// Cells without a number stay last.
function compare(a, b, sign) {
  if (a === "-" || b === "-") return (a === "-") - (b === "-");
  const numbers = [Number(a), Number(b)];
  const order = numbers.some(Number.isNaN) ? a.localeCompare(b) : numbers[0] - numbers[1];
  return sign * order;
}

// Menus that show one of several charts or tables.
for (const menu of document.querySelectorAll("select[data-shows]")) {
  const parts = document.getElementById(menu.dataset.shows).children;
  const show = () => [...parts].forEach((part, i) => {
    part.hidden = i !== menu.selectedIndex;
  });
  menu.addEventListener("change", show);
  show(); // browsers keep the choice of an earlier visit
}

// Reliability diagrams: the marks of one picture are moved to the chosen numbers.
const store = document.getElementById("reliability-data");
if (store) {
  const data = JSON.parse(store.textContent);
  const condition = document.getElementById("condition");
  const percent = (share, digits = 1) => (100 * share).toFixed(digits);
  const set = (element, values) => {
    for (const [name, value] of Object.entries(values)) element.setAttribute(name, value);
  };
  for (const figure of document.querySelectorAll("figure.reliability")) {
    const method = figure.querySelector("select.method");
    const svg = figure.querySelector("svg");
    const [x0, x1, y0, y1, c0, c1] = svg.dataset.places.split(" ").map(Number);
    const bins = [...svg.querySelectorAll("g.bin")];
    const draw = () => {
      const table = data.tables[condition.selectedIndex][method.selectedIndex];
      const most = Math.max(...table.count);
      bins.forEach((bin, i) => {
        bin.setAttribute("visibility", table.count[i] ? "visible" : "hidden");
        if (!table.count[i]) return;
        const [confidence, accuracy, low, high] = table.bins.map((c) => c[i] / data.unit);
        const x = x0 + confidence * (x1 - x0);
        const y = (share) => y0 + share * (y1 - y0);
        const height = (table.count[i] / most) * (c0 - c1);
        const width = (x1 - x0) / bins.length;
        set(bin.querySelector(".count"), {
          x: x0 + i * width + 1, y: c0 - height, width: width - 2, height,
        });
        set(bin.querySelector(".gap"), { x1: x, x2: x, y1: y(confidence), y2: y(accuracy) });
        set(bin.querySelector(".whisker"), { x1: x, x2: x, y1: y(low), y2: y(high) });
        set(bin.querySelector(".dot"), { cx: x, cy: y(accuracy) });
        bin.querySelector("title").textContent =
          `${table.count[i].toLocaleString("en")} samples, confidence ${percent(confidence)} %, ` +
          `accuracy ${percent(accuracy)} % (${percent(low)} to ${percent(high)})`;
      });
      figure.querySelector(".said").textContent =
        `${table.n.toLocaleString("en")} samples: confidence ${percent(table.confidence)} %, ` +
        `accuracy ${percent(table.accuracy)} %, ECE ${percent(table.ece, 2)} %`;
    };
    method.addEventListener("change", draw);
    condition.addEventListener("change", draw);
    draw();
  }
}

// Pointing at a method in a legend dims the others in all charts.
for (const item of document.querySelectorAll(".legend [data-method]")) {
  const others = () => [...document.querySelectorAll("svg [data-method]")].filter(
    (mark) => mark.dataset.method !== item.dataset.method && !mark.closest(".legend"),
  );
  item.addEventListener("mouseenter", () => others().forEach((m) => m.classList.add("dim")));
  item.addEventListener("mouseleave", () => others().forEach((m) => m.classList.remove("dim")));
}
