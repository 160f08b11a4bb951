// The official client against the Socket.IO fixture, on every transport.
import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import { io } from "socket.io-client";
import { base } from "./client.mjs";

const transportSets = {
  "websocket only": ["websocket"],
  "polling only": ["polling"],
  "polling, then upgraded": ["polling", "websocket"],
};

async function connect(namespace, options) {
  const socket = io(base + namespace, { forceNew: true, reconnectionDelay: 10, reconnectionDelayMax: 20, ...options });
  const greeting = once(socket, "auth");
  await once(socket, "connect");
  return { socket, auth: (await greeting)[0] };
}

describe("official client", { timeout: 60000 }, () => {
  for (const [name, transports] of Object.entries(transportSets)) {
    describe(name, () => {
      it("connects to a namespace with a payload", async () => {
        const { socket, auth } = await connect("/custom", { transports, auth: { token: "abc" } });
        assert.deepEqual(auth, { token: "abc" });
        socket.disconnect();
      });
      it("exchanges text and binary, in order", async () => {
        const { socket } = await connect("/", { transports });
        const got = [];
        const done = new Promise((resolve) => {
          socket.on("message-back", (...args) => {
            got.push(args);
            if (got.length === 100) resolve();
          });
        });
        for (let i = 0; i < 100; i++) socket.emit("message", i, i % 2 ? Buffer.from([i]) : `text ${i}`);
        await done;
        for (let i = 0; i < 100; i++) {
          assert.equal(got[i][0], i);
          assert.deepEqual(got[i][1], i % 2 ? Buffer.from([i]) : `text ${i}`);
        }
        socket.disconnect();
      });
      it("gets acknowledgements, or times out", async () => {
        const { socket } = await connect("/", { transports });
        assert.equal(await socket.timeout(5000).emitWithAck("message-with-ack", "x"), "x");
        assert.deepEqual(await socket.timeout(5000).emitWithAck("message-with-ack", Buffer.from([7])), Buffer.from([7]));
        await assert.rejects(socket.timeout(50).emitWithAck("nobody answers this"));
        socket.disconnect();
      });
      it("outlives many heartbeats", async () => {
        const { socket } = await connect("/", { transports });
        let lost = false;
        socket.on("disconnect", () => (lost = true));
        for (let pings = 0; pings < 4; pings++) await once(socket.io, "ping");
        assert.equal(lost, false);
        socket.disconnect();
      });
      it("comes back after its connection is cut", async () => {
        const { socket } = await connect("/", { transports });
        const first = socket.id;
        const back = once(socket, "connect");
        socket.io.engine.close();
        await back;
        assert.notEqual(socket.id, first);
        assert.equal(await socket.timeout(5000).emitWithAck("message-with-ack", "again"), "again");
        socket.disconnect();
      });
    });
  }
  it("upgrades to websocket and goes on", async () => {
    const { socket } = await connect("/", { transports: ["polling", "websocket"] });
    if (socket.io.engine.transport.name === "polling") await once(socket.io.engine, "upgrade");
    assert.equal(socket.io.engine.transport.name, "websocket");
    assert.equal(await socket.timeout(5000).emitWithAck("message-with-ack", 1), 1);
    socket.disconnect();
  });
  it("two namespaces share one connection", async () => {
    const main = io(base, { transports: ["websocket"], forceNew: true });
    const custom = main.io.socket("/custom");
    await Promise.all([once(main, "connect"), once(custom, "connect")]);
    custom.disconnect();
    assert.equal(await main.timeout(5000).emitWithAck("message-with-ack", 1), 1);
    main.disconnect();
  });
  it("is told about an unknown namespace", async () => {
    const socket = io(`${base}/random`, { transports: ["websocket"], forceNew: true });
    const [error] = await once(socket, "connect_error");
    assert.equal(error.message, "Invalid namespace");
    socket.disconnect();
  });
});
