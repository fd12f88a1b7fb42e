// The search of the site runs in a worker, and browsers start none for pages that are opened from a
// folder. There a hidden frame stands for it: same interface, same script.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      this.inside = this.frame.contentWindow
      this.answer = event => {
        if (event.source !== this.inside) return
        event.stopImmediatePropagation()
        const message = new MessageEvent("message", { data: event.data })
        this.dispatchEvent(message)
        if (this.onmessage) this.onmessage(message)
      }
      addEventListener("message", this.answer)
      // What a worker has and a frame lacks: importScripts, and messages that go to its maker.
      this.inside.document.write(`<script>
        var postMessage = data => parent.dispatchEvent(
          new MessageEvent("message", { data: data, source: window }))
        var importScripts = (...addresses) => addresses.reduce((before, address) =>
          before.then(() => new Promise((loaded, failed) => {
            const script = document.createElement("script")
            script.src = address
            script.onload = loaded
            script.onerror = failed
            document.body.append(script)
          })), Promise.resolve())
      </script><script src="${address}"></script>`)
      this.ready = new Promise(loaded => { this.inside.onload = loaded })
      this.inside.document.close()
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })))
    }
    terminate() {
      removeEventListener("message", this.answer)
      this.frame.remove()
    }
  }
}
