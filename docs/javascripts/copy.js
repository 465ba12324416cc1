// What is copied from an example is what a reader types: no prompts, and no printed answers.
document.addEventListener("copy", (event) => {
  const field = document.activeElement
  const text = field instanceof HTMLTextAreaElement
    ? field.value.slice(field.selectionStart, field.selectionEnd)
    : getSelection().toString()
  const typed = text.split("\n").filter((line) => /^(>>>|\.\.\.)( |$)/.test(line))
  if (!typed.length) return
  event.clipboardData.setData("text/plain", typed.map((line) => line.slice(4)).join("\n") + "\n")
  event.preventDefault()
})
