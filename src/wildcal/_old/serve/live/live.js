"use strict";
// Names of streams come from clients: they become text and nothing else.
const SVG = "http://www.w3.org/2000/svg", WIDTH = 480, LEFT = 48, KEEP = 300;
const byId = (id) => document.getElementById(id);
const cards = new Map();
let token = sessionStorage.getItem("wildcal-token");

function make(name, attributes = {}, parent = null, text = null) {
  const node = name.startsWith("svg:") ? document.createElementNS(SVG, name.slice(4)) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== null) node.textContent = text;
  if (parent) parent.append(node);
  return node;
}

const percent = (value) => value == null ? "–" : (100 * value).toFixed(1) + " %";
const whole = (value) => value == null ? "–" : Math.round(value).toLocaleString("en");

function newCard(stream) {
  const card = make("article", {}, byId("streams"));
  make("h2", {}, card, stream.stream);
  const said = make("p", { class: "said" }, card);
  make("span", {}, said, stream.model + " · ");
  const state = make("span", { class: "state" }, said);
  const numbers = make("dl", {}, card);
  const figures = {};
  for (const [name, caption] of [["accuracy", "Estimated accuracy and its 95 % interval, by row; dotted: true accuracy of rows with labels"],
    ["drift", "Drift in standard errors, against its threshold"], ["confidence", "Mean confidence"], ["histogram", "Confidence of the last rows"]]) {
    const figure = make("figure", {}, card);
    make("figcaption", {}, figure, caption);
    figures[name] = { figure, svg: make("svg:svg", { viewBox: "0 0 480 130", role: "img", "aria-label": caption }, figure) };
  }
  return { card, state, numbers, figures, points: [], alarms: [] };
}

function number(list, name, value, more = "") {
  const box = make("div", {}, list);
  make("dt", {}, box, name);
  const shown = make("dd", {}, box, value + " ");
  if (more) make("small", {}, shown, more);
}

function scale(points, low, high) {
  const first = points[0].rows, last = Math.max(points[points.length - 1].rows, first + 1);
  return {
    x: (row) => LEFT + (WIDTH - LEFT - 4) * (row - first) / (last - first),
    y: (value) => 8 + 100 * (1 - (Math.min(Math.max(value, low), high) - low) / (high - low)),
    first, last, low, high,
  };
}

function frame(svg, s, label) {
  svg.replaceChildren();
  for (const value of [s.low, (s.low + s.high) / 2, s.high]) {
    make("svg:line", { class: "axis", x1: LEFT, x2: WIDTH - 4, y1: s.y(value), y2: s.y(value) }, svg);
    make("svg:text", { x: LEFT - 5, y: s.y(value) + 4, "text-anchor": "end" }, svg, label(value));
  }
  make("svg:text", { x: LEFT, y: 124 }, svg, "row " + whole(s.first));
  make("svg:text", { x: WIDTH - 4, y: 124, "text-anchor": "end" }, svg, "row " + whole(s.last));
}

function curve(svg, s, points, key, style) {
  const shown = points.filter((p) => p[key] != null);
  if (shown.length === 1) make("svg:circle", { cx: s.x(shown[0].rows), cy: s.y(shown[0][key]), r: 2.5, fill: "currentColor" }, svg);
  if (shown.length > 1) make("svg:polyline", { class: style, points: shown.map((p) => s.x(p.rows).toFixed(1) + "," + s.y(p[key]).toFixed(1)).join(" ") }, svg);
}

function alarms(svg, s, rows) {
  for (const row of rows) if (row >= s.first && row <= s.last)
    make("svg:line", { class: "rang", x1: s.x(row), x2: s.x(row), y1: 8, y2: 108 }, svg);
}

function drawAccuracy(view) {
  const points = view.points.filter((p) => p.estimated_accuracy != null || p.accuracy != null), svg = view.figures.accuracy.svg;
  if (!points.length) return;
  const s = scale(points, 0, 1), banded = points.filter((p) => p.estimated_accuracy_low != null);
  frame(svg, s, (v) => (100 * v).toFixed(0) + " %");
  if (banded.length > 1) {
    const up = banded.map((p) => s.x(p.rows).toFixed(1) + "," + s.y(p.estimated_accuracy_high).toFixed(1));
    const down = banded.map((p) => s.x(p.rows).toFixed(1) + "," + s.y(p.estimated_accuracy_low).toFixed(1)).reverse();
    make("svg:polygon", { class: "band", points: [...up, ...down].join(" ") }, svg);
  }
  alarms(svg, s, view.alarms);
  curve(svg, s, points, "estimated_accuracy", "curve");
  curve(svg, s, points, "accuracy", "true");
}

function drawDrift(view, threshold) {
  const points = view.points.filter((p) => p.drift != null), svg = view.figures.drift.svg;
  if (!points.length) return;
  const s = scale(points, 0, Math.max(2 * threshold, ...points.map((p) => p.drift)));
  frame(svg, s, (v) => v.toFixed(1));
  make("svg:line", { class: "limit", x1: LEFT, x2: WIDTH - 4, y1: s.y(threshold), y2: s.y(threshold) }, svg);
  alarms(svg, s, view.alarms);
  curve(svg, s, points, "drift", "curve");
}

function drawConfidence(view) {
  const points = view.points.filter((p) => p.confidence != null);
  if (!points.length) return;
  const s = scale(points, 0, 1);
  frame(view.figures.confidence.svg, s, (v) => (100 * v).toFixed(0) + " %");
  curve(view.figures.confidence.svg, s, points, "confidence", "curve");
}

function drawHistogram(view, shares) {
  const svg = view.figures.histogram.svg, top = Math.max(...shares, 1e-9), step = (WIDTH - LEFT - 4) / shares.length;
  svg.replaceChildren();
  shares.forEach((share, i) => {
    const height = 100 * share / top;
    make("svg:rect", { class: "bar", x: (LEFT + i * step + 1).toFixed(1), width: (step - 2).toFixed(1), y: (108 - height).toFixed(1), height: height.toFixed(1) }, svg);
  });
  make("svg:text", { x: LEFT, y: 124 }, svg, "0 %");
  make("svg:text", { x: WIDTH - 4, y: 124, "text-anchor": "end" }, svg, "100 %");
}

function show(stream, fresh) {
  const key = JSON.stringify([stream.model, stream.stream]);
  if (!cards.has(key)) cards.set(key, newCard(stream));
  const view = cards.get(key);
  view.points = fresh ? stream.points : [...view.points, ...stream.points].slice(-KEEP);
  view.alarms = stream.alarms.map((a) => a.row);
  const windowed = stream.estimated_accuracy != null;
  view.card.classList.toggle("alarm", stream.alarm === true);
  view.state.textContent = !windowed ? "each row read alone" : stream.alarm ? "ALARM: rows no longer look like the clean ones" : "no alarm";
  view.numbers.replaceChildren();
  number(view.numbers, "rows", whole(stream.rows));
  number(view.numbers, "mean confidence", percent(stream.confidence));
  if (windowed) {
    number(view.numbers, "estimated accuracy", percent(stream.estimated_accuracy), percent(stream.estimated_accuracy_low) + " to " + percent(stream.estimated_accuracy_high));
    number(view.numbers, "drift", stream.drift.toFixed(1), "threshold " + stream.threshold.toFixed(1));
    number(view.numbers, "alarms", whole(stream.alarms.length), stream.alarms.length ? "last at row " + whole(view.alarms[view.alarms.length - 1]) : "");
  }
  if (stream.labels) number(view.numbers, "with labels", percent(stream.accuracy), whole(stream.labels) + " labels, ECE " + percent(stream.ece) + " (" + percent(stream.noise_floor) + " by chance), " + stream.verdict);
  view.figures.accuracy.figure.hidden = !windowed && !stream.labels;
  view.figures.drift.figure.hidden = !windowed;
  view.figures.confidence.figure.hidden = windowed;
  drawAccuracy(view);
  if (windowed) drawDrift(view, stream.threshold);
  drawConfidence(view);
  drawHistogram(view, stream.histogram);
}

function told(message) {
  if (message.all) { byId("streams").replaceChildren(); cards.clear(); }
  for (const stream of message.streams) show(stream, message.all === true);
  byId("none").hidden = cards.size > 0;
}

async function listen() {
  const headers = token ? { Authorization: "Bearer " + token } : {};
  const answer = await fetch("live", { headers, cache: "no-store" });
  byId("token").hidden = answer.status !== 401;
  if (!answer.ok) throw new Error(answer.status === 401 ? "a token is needed" : "status " + answer.status);
  byId("status").textContent = "live";
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ""; ;) {
    const { value, done } = await reader.read();
    if (done) throw new Error("the server has closed");
    const parts = (text + value).split("\n\n");
    text = parts.pop();
    for (const part of parts) if (part.startsWith("data: ")) told(JSON.parse(part.slice(6)));
  }
}

async function forever() {
  for (;;) {
    try { await listen(); } catch (error) { byId("status").textContent = "not connected (" + error.message + ")"; }
    if (!byId("token").hidden) return;
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
}

byId("token").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").querySelector("input").value;
  sessionStorage.setItem("wildcal-token", token);
  forever();
});
forever();
