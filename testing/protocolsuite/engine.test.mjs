import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Client, get, openPolling, polling, post, sleep, websocket } from "./client.mjs";
import { engineTests } from "./engine.mjs";

const path = "/engine.io/";

describe("Engine.IO protocol", { timeout: 60000 }, () => {
  engineTests(path);

  describe("message", () => {
    const bodies = {
      "one text packet": "4hello",
      "several text packets": "4test1\x1e4test2\x1e4test3",
      "text and binary packets": "4hello\x1ebAQIDBA==",
    };
    for (const [name, body] of Object.entries(bodies)) {
      it(`polling: ${name}`, async () => {
        const query = `${polling}&sid=${await openPolling(path)}`;
        const pushed = await post(path, query, body);
        assert.equal(pushed.status, 200);
        assert.equal(await pushed.text(), "ok");
        const poll = await get(path, query);
        assert.equal(poll.status, 200);
        assert.equal(await poll.text(), body);
      });
    }
    it("polling: a malformed packet ends the session", async () => {
      const query = `${polling}&sid=${await openPolling(path)}`;
      assert.equal((await post(path, query, "abc")).status, 400);
      assert.equal((await get(path, query)).status, 400);
    });
    it("polling: overlapping polls end the session", async () => {
      const query = `${polling}&sid=${await openPolling(path)}`;
      const [first, second] = await Promise.all([get(path, query), sleep(5).then(() => get(path, query))]);
      assert.equal(first.status, 200);
      assert.equal(await first.text(), "1");
      assert.equal(second.status, 400);
      assert.equal((await get(path, query)).status, 400);
    });
    it("polling: a cancelled poll ends the session", async () => {
      const query = `${polling}&sid=${await openPolling(path)}`;
      const cancel = new AbortController();
      const poll = get(path, query, { signal: cancel.signal }).catch(() => {});
      await sleep(5);
      cancel.abort();
      await poll;
      assert.equal((await get(path, query)).status, 400);
    });
    it("websocket: text", async () => {
      const client = new Client(path, websocket);
      await client.next();
      client.send("4hello");
      assert.equal(await client.next(), "4hello");
      client.end();
    });
    it("websocket: binary", async () => {
      const client = new Client(path, websocket);
      await client.next();
      client.send(Uint8Array.from([1, 2, 3, 4]));
      assert.deepEqual(await client.next(), Uint8Array.from([1, 2, 3, 4]).buffer);
      client.end();
    });
    it("websocket: a malformed packet ends the connection", async () => {
      const client = new Client(path, websocket);
      await client.next();
      client.send("abc");
      await client.closed;
    });
  });
});
