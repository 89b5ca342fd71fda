// Opened from a folder (file://), a page may not start a worker. The search's worker then runs in a frame, where its script finds the
// same events: messages are copied and come later, as a worker's do.
if (location.protocol === "file:") {
  const send = (data, receive) => {
    const copy = structuredClone(data);
    setTimeout(() => receive(new MessageEvent("message", { data: copy })));
  };
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inner = this.frame.contentWindow;
      inner.postMessage = data => send(data, event => this.onmessage?.(event));
      const script = inner.document.createElement("script");
      script.src = new URL(url, location).href;
      script.onload = () => {
        this.deliver = data => send(data, event => inner.dispatchEvent(event));
        this.waiting.forEach(this.deliver);
      };
      script.onerror = event => this.onerror?.(event);
      inner.document.head.append(script);
    }
    deliver = data => this.waiting.push(data);
    postMessage(data) { this.deliver(data); }
    terminate() { this.frame.remove(); }
  };
}
