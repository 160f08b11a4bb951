import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Client, websocket } from "./client.mjs";
import { engineTests } from "./engine.mjs";

const path = "/socket.io/";

async function open() {
  const client = new Client(path, websocket);
  await client.next();
  return client;
}

// Connected to the main namespace, its greeting read.
async function connected() {
  const client = await open();
  client.send("40");
  await client.nextPacket();
  await client.nextPacket();
  return client;
}

describe("Engine.IO under Socket.IO", { timeout: 60000 }, () => engineTests(path));

describe("Socket.IO protocol", { timeout: 60000 }, () => {
  describe("connect", () => {
    const joins = [
      ["the main namespace", "40", "40", '42["auth",{}]'],
      ["the main namespace with a payload", '40{"token":"123"}', "40", '42["auth",{"token":"123"}]'],
      ["a custom namespace", "40/custom,", "40/custom,", '42/custom,["auth",{}]'],
      ["a custom namespace with a payload", '40/custom,{"token":"abc"}', "40/custom,", '42/custom,["auth",{"token":"abc"}]'],
    ];
    for (const [name, packet, head, auth] of joins) {
      it(name, async () => {
        const client = await open();
        client.send(packet);
        const reply = await client.next();
        assert.ok(reply.startsWith(head), reply);
        const payload = JSON.parse(reply.slice(head.length));
        assert.deepEqual(Object.keys(payload), ["sid"]);
        assert.equal(typeof payload.sid, "string");
        assert.equal(await client.next(), auth);
        client.end();
      });
    }
    it("an unknown namespace is refused", async () => {
      const client = await open();
      client.send("40/random");
      assert.equal(await client.next(), '44/random,{"message":"Invalid namespace"}');
      client.end();
    });
    it("a malformed first packet ends the connection", async () => {
      const client = await open();
      client.send("4abc");
      await client.closed;
    });
    it("without CONNECT the connection is closed", async () => {
      const client = await open();
      const answering = (async () => {
        for (;;) if ((await client.next()) === "2") client.send("3");
      })();
      await client.closed;
      answering.catch(() => {});
    });
  });

  describe("disconnect", () => {
    it("from the main namespace: only pings remain", async () => {
      const client = await connected();
      client.send("41");
      assert.equal(await client.next(), "2");
      client.end();
    });
    it("from a custom namespace: the main one lives on", async () => {
      const client = await connected();
      client.send("40/custom");
      await client.nextPacket();
      await client.nextPacket();
      client.send("41/custom", '42["message","message to main namespace"]');
      assert.equal(await client.nextPacket(), '42["message-back","message to main namespace"]');
      client.end();
    });
  });

  describe("message", () => {
    const placeholders = '{"_placeholder":true,"num":0},{"_placeholder":true,"num":1}';
    const attachments = [Uint8Array.from([1, 2, 3]), Uint8Array.from([4, 5, 6])];
    const exchanges = [
      ["text", ['42["message",1,"2",{"3":[true]}]'], ['42["message-back",1,"2",{"3":[true]}]']],
      ["binary", [`452-["message",${placeholders}]`, ...attachments], [`452-["message-back",${placeholders}]`, ...attachments]],
      ["text with acknowledgement", ['42456["message-with-ack",1,"2",{"3":[false]}]'], ['43456[1,"2",{"3":[false]}]']],
      ["binary with acknowledgement", [`452-789["message-with-ack",${placeholders}]`, ...attachments], [`462-789[${placeholders}]`, ...attachments]],
    ];
    for (const [name, sent, expected] of exchanges) {
      it(name, async () => {
        const client = await connected();
        client.send(...sent);
        for (const want of expected) {
          assert.deepEqual(await client.nextPacket(), typeof want === "string" ? want : want.buffer);
        }
        client.end();
      });
    }
    const malformed = {
      "unknown packet type": "4abc",
      "payload that is not an array": "42{}",
      "acknowledgement id that is not a number": '42abc["message-with-ack",1,"2",{"3":[false]}]',
    };
    for (const [name, packet] of Object.entries(malformed)) {
      it(`${name} ends the connection`, async () => {
        const client = await connected();
        client.send(packet);
        await client.closed;
      });
    }
  });
});
