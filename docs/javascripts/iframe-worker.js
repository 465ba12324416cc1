// Browsers give no workers to pages that are opened from files. There, what searches the site runs
// in a hidden frame: its messages go in as events, and its answers come out of the worker's.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      const script = document.createElement("script")
      script.src = url
      frame.srcdoc = script.outerHTML
      this.ready = new Promise((resolve) => {
        frame.onload = () => {
          const inside = frame.contentWindow
          inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
          resolve(inside)
        }
      })
      document.body.append(frame)
    }

    postMessage(data) {
      this.ready.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })))
    }
  }
}
