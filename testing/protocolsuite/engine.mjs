// Statements of the Engine.IO protocol that hold under every application.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Client, get, openPolling, pingInterval, pingTimeout, polling, post, sleep, websocket } from "./client.mjs";

function assertOpen(packet, upgrades) {
  assert.equal(packet[0], "0");
  const open = JSON.parse(packet.slice(1));
  assert.equal(typeof open.sid, "string");
  const { sid, ...rest } = open;
  assert.deepEqual(rest, { upgrades, pingInterval, pingTimeout, maxPayload: 1000000 });
}

export function engineTests(path) {
  describe("handshake", () => {
    it("polling: opens a session", async () => {
      const response = await get(path, polling);
      assert.equal(response.status, 200);
      assertOpen(await response.text(), ["websocket"]);
    });
    it("polling: refuses a missing or wrong EIO", async () => {
      assert.equal((await get(path, "?transport=polling")).status, 400);
      assert.equal((await get(path, "?EIO=abc&transport=polling")).status, 400);
    });
    it("polling: refuses a missing or wrong transport", async () => {
      assert.equal((await get(path, "?EIO=4")).status, 400);
      assert.equal((await get(path, "?EIO=4&transport=abc")).status, 400);
    });
    it("polling: refuses other methods", async () => {
      for (const method of ["POST", "PUT"]) {
        assert.equal((await get(path, polling, { method })).status, 400);
      }
    });
    it("websocket: opens a session", async () => {
      const client = new Client(path, websocket);
      assertOpen(await client.next(), []);
      client.end();
    });
    it("websocket: refuses a missing or wrong EIO", async () => {
      await new Client(path, "?transport=websocket").closed;
      await new Client(path, "?EIO=abc&transport=websocket").closed;
    });
    it("websocket: refuses a missing or wrong transport", async () => {
      await new Client(path, "?EIO=4").closed;
      await new Client(path, "?EIO=4&transport=abc").closed;
    });
  });

  describe("heartbeat", () => {
    it("polling: three pings, three pongs", async () => {
      const query = `${polling}&sid=${await openPolling(path)}`;
      for (let i = 0; i < 3; i++) {
        const poll = await get(path, query);
        assert.equal(poll.status, 200);
        assert.equal(await poll.text(), "2");
        assert.equal((await post(path, query, "3")).status, 200);
      }
    });
    it("polling: dead exactly after interval and timeout", async () => {
      const query = `${polling}&sid=${await openPolling(path)}`;
      await sleep(pingInterval + pingTimeout);
      assert.equal((await get(path, query)).status, 400);
    });
    it("websocket: three pings, three pongs", async () => {
      const client = new Client(path, websocket);
      await client.next();
      for (let i = 0; i < 3; i++) {
        assert.equal(await client.next(), "2");
        client.send("3");
      }
      client.end();
    });
    it("websocket: closed when pongs are missing", async () => {
      await new Client(path, websocket).closed;
    });
  });

  describe("close", () => {
    it("polling: the close packet releases the poll and ends the session", async () => {
      const query = `${polling}&sid=${await openPolling(path)}`;
      const [poll] = await Promise.all([get(path, query), post(path, query, "1")]);
      assert.equal(poll.status, 200);
      assert.equal(await poll.text(), "6");
      assert.equal((await get(path, query)).status, 400);
    });
    it("websocket: the close packet ends the connection", async () => {
      const client = new Client(path, websocket);
      await client.next();
      client.send("1");
      await client.closed;
    });
  });

  describe("upgrade", () => {
    it("from polling to websocket", async () => {
      const sid = await openPolling(path);
      const client = new Client(path, `${websocket}&sid=${sid}`);
      await client.opened;
      client.send("2probe");
      assert.equal(await client.next(), "3probe");
      const poll = await get(path, `${polling}&sid=${sid}`);
      assert.equal(poll.status, 200);
      assert.equal(await poll.text(), "6");
      client.send("5");
      assert.equal(await client.next(), "2"); // the heartbeat has moved over
      client.end();
    });
    it("polls of an upgraded session are refused", async () => {
      const sid = await openPolling(path);
      const client = new Client(path, `${websocket}&sid=${sid}`);
      await client.opened;
      client.send("2probe", "5"); // the poll may overtake both
      assert.equal((await get(path, `${polling}&sid=${sid}`)).status, 400);
      assert.equal(await client.next(), "3probe");
      client.end();
    });
    it("a second websocket for an upgraded session is closed", async () => {
      const sid = await openPolling(path);
      const client = new Client(path, `${websocket}&sid=${sid}`);
      await client.opened;
      client.send("2probe", "5");
      await new Client(path, `${websocket}&sid=${sid}`).closed;
      assert.equal(await client.next(), "3probe");
      assert.equal(await client.next(), "2");
      client.end();
    });
  });
}
