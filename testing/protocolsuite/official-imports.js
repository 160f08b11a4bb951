// What the official suites import under Node, with one difference: ws delivers
// every message in its own turn of the event loop.
import chai from "chai";
import chaiString from "chai-string";
import { WebSocket } from "ws";

chai.use(chaiString);

globalThis.chai = chai;
globalThis.WebSocket = class extends WebSocket {
  constructor(url) {
    super(url, { allowSynchronousEvents: false });
  }
};
