// A WebSocket client that never loses a message between two waits.
import { WebSocket } from "ws";

export const base = process.env.PROTOCOL_BASE ?? "http://127.0.0.1:3000";
export const pingInterval = 300;
export const pingTimeout = 200;

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class Client {
  #messages = [];
  #waiting = [];

  constructor(path, query) {
    // Two messages of one segment must not arrive in one synchronous burst.
    this.ws = new WebSocket(base.replace("http", "ws") + path + query, { allowSynchronousEvents: false });
    this.ws.binaryType = "arraybuffer";
    this.ws.on("error", () => {}); // "close" follows and is what the tests wait for
    this.opened = new Promise((resolve) => this.ws.once("open", resolve));
    this.closed = new Promise((resolve) => this.ws.once("close", resolve));
    this.ws.addEventListener("message", ({ data }) => {
      const next = this.#waiting.shift();
      if (next) next(data);
      else this.#messages.push(data);
    });
  }

  send(...messages) {
    for (const m of messages) this.ws.send(m);
  }

  next() {
    if (this.#messages.length > 0) return Promise.resolve(this.#messages.shift());
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  // The next message that is not a ping.
  async nextPacket() {
    for (;;) {
      const m = await this.next();
      if (m !== "2") return m;
    }
  }

  end() {
    this.ws.terminate();
  }
}

export const get = (path, query, options) => fetch(base + path + query, options);
export const post = (path, query, body) => fetch(base + path + query, { method: "POST", body });
export const polling = "?EIO=4&transport=polling";
export const websocket = "?EIO=4&transport=websocket";

export async function openPolling(path) {
  const response = await get(path, polling);
  return JSON.parse((await response.text()).slice(1)).sid;
}
