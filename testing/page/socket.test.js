import assert from 'node:assert/strict';
import test, { mock } from 'node:test';

import { ChatSocket } from '../../adapter/httpapi/page/static/socket.js';
import { PollingTransport } from '../../adapter/httpapi/page/static/transport.js';

const OPEN = '0{"sid":"e1","upgrades":[],"pingInterval":25000,"pingTimeout":20000,"maxPayload":1000000}';

/** harness makes a socket whose transports are scripted, and records what happens. */
function harness() {
  const log = [];
  const made = [];
  class Scripted {
    constructor(url, { onPacket, onClose }) {
      Object.assign(this, { onPacket, onClose, sent: [] });
      made.push(this);
    }
    send(packet) {
      this.sent.push(packet);
    }
    close(reason) {
      if (this.closed) return;
      this.closed = true;
      this.onClose(reason);
    }
  }
  class Other extends Scripted {}
  const socket = new ChatSocket('http://edge.test/socket.io/', '/chat-run', {
    onConnect: (recovered) => log.push(['connect', recovered]),
    onEvent: (name, payload) => log.push(['event', name, payload]),
    onRefused: (message) => log.push(['refused', message]),
    onState: (state) => log.push(['state', state.phase]),
  }, { transports: [Scripted, Other] });
  const accept = (pid = 'p1') => {
    made.at(-1).onPacket(OPEN);
    made.at(-1).onPacket(`40/chat-run,{"sid":"s","pid":"${pid}"}`);
  };
  const of = (kind) => log.filter(([name]) => name === kind).map(([, ...rest]) => rest);
  return { socket, made, accept, of, Other };
}

test.beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }));
test.afterEach(() => mock.timers.reset());

test('handshake, token, events, pong', () => {
  const { socket, made, accept, of } = harness();
  socket.connect('secret');
  assert.equal(socket.emit('run', {}), false, 'nothing is sent before the namespace accepted');
  accept();
  assert.deepEqual(made[0].sent, ['40/chat-run,{"token":"secret"}']);
  assert.deepEqual(of('connect'), [[false]]);
  assert.equal(socket.emit('resume', { session_id: 's1' }), true);
  assert.equal(made[0].sent[1], '42/chat-run,["resume",{"session_id":"s1"}]');
  made[0].onPacket('2');
  assert.equal(made[0].sent[2], '3');
  made[0].onPacket('42/chat-run,["message.delta",{"delta":"x"},"off1"]');
  made[0].onPacket('42/group-chat,["message.delta",{"delta":"other namespace"}]');
  assert.deepEqual(of('event'), [['message.delta', { delta: 'x' }]]);
});

test('reconnects with back-off and asks for recovery', () => {
  const { socket, made, accept, of } = harness();
  socket.connect('t');
  accept();
  made[0].onPacket('42/chat-run,["a",{},"off7"]');
  made[0].close('transport close');
  assert.equal(socket.emit('run', {}), false);
  mock.timers.tick(1000);
  made[1].onPacket(OPEN);
  assert.deepEqual(made[1].sent, ['40/chat-run,{"pid":"p1","offset":"off7","token":"t"}']);
  made[1].onPacket('40/chat-run,{"sid":"s","pid":"p1"}');
  assert.deepEqual(of('connect'), [[false], [true]]);
  made[1].close('transport close');
  mock.timers.tick(1000);
  accept('p2');
  assert.deepEqual(of('connect').at(-1), [false], 'another pid means that nothing was recovered');
});

test('the back-off grows, and retryNow skips it', () => {
  const { socket, made, Other } = harness();
  socket.connect('t');
  const fail = () => {
    made.at(-1).close('transport error');
    assert.ok(made.at(-1) instanceof Other, 'the second transport is tried at once');
    made.at(-1).close('transport error');
  };
  for (const ceiling of [1000, 2000, 4000, 8000, 16000, 30000, 30000]) {
    fail();
    const before = made.length;
    mock.timers.tick(ceiling / 2 - 1);
    assert.equal(made.length, before, `not before half of ${ceiling}`);
    mock.timers.tick(ceiling / 2 + 1);
    assert.equal(made.length, before + 1);
  }
  fail();
  socket.retryNow();
  assert.ok(!made.at(-1).closed);
});

test('a WebSocket that never opens gives way to polling', () => {
  const { socket, made, accept, Other, of } = harness();
  socket.connect('t');
  mock.timers.tick(15_000);
  assert.ok(made[0].closed && made[1] instanceof Other);
  accept();
  assert.deepEqual(of('connect'), [[false]]);
});

test('silence of the server ends the connection', () => {
  const { socket, made, accept } = harness();
  socket.connect('t');
  accept();
  mock.timers.tick(44_999);
  made[0].onPacket('2');
  mock.timers.tick(44_999);
  assert.ok(!made[0].closed);
  mock.timers.tick(1);
  assert.ok(made[0].closed);
});

test('a namespace that does not answer is tried again', () => {
  const { socket, made } = harness();
  socket.connect('t');
  made[0].onPacket(OPEN);
  mock.timers.tick(30_000);
  assert.ok(made[0].closed);
  mock.timers.tick(1000);
  assert.equal(made.length, 2);
});

test('a refusal is final until connect is called', () => {
  const { socket, made, of } = harness();
  socket.connect('bad');
  made[0].onPacket(OPEN);
  made[0].onPacket('44/chat-run,{"message":"Authentication failed"}');
  assert.deepEqual(of('refused'), [['Authentication failed']]);
  mock.timers.tick(120_000);
  socket.retryNow();
  assert.equal(made.length, 1);
});

test('a disconnect by the server reconnects without recovery', () => {
  const { socket, made, accept } = harness();
  socket.connect('t');
  accept();
  made[0].onPacket('41/chat-run,');
  mock.timers.tick(1000);
  made[1].onPacket(OPEN);
  assert.deepEqual(made[1].sent, ['40/chat-run,{"token":"t"}']);
});

test('close ends everything; late packets of an old transport are ignored', () => {
  const { socket, made, accept, of } = harness();
  socket.connect('t');
  accept();
  socket.close();
  made[0].onPacket('42/chat-run,["late",{}]');
  mock.timers.tick(120_000);
  assert.deepEqual([made.length, of('event').length], [1, 0]);
});

test('broken packets are ignored, a broken handshake reconnects', () => {
  const { socket, made, accept, of } = harness();
  socket.connect('t');
  accept();
  for (const packet of ['', '4', '42/chat-run,[', '42/chat-run,{}', 'x', '6']) made[0].onPacket(packet);
  assert.deepEqual(of('event'), []);
  socket.connect('t');
  made[1].onPacket('0{');
  assert.ok(made[1].closed);
});

test('polling: sid from the handshake, packets split, posts joined, closed once', async () => {
  mock.timers.reset();
  const requests = [];
  const answers = [];
  const fetch = (url, options) => new Promise((resolve) => {
    requests.push({ url: new URL(url), ...options });
    answers.push((body, ok = true) => resolve({ ok, text: async () => body }));
  });
  const packets = [];
  const settled = () => new Promise((resolve) => setImmediate(resolve));
  let closes = 0;
  const polling = new PollingTransport('http://edge.test/socket.io/', { fetch, onPacket: (packet) => packets.push(packet), onClose: () => (closes += 1) });
  assert.equal(requests[0].url.search, '?EIO=4&transport=polling');
  answers[0](`${OPEN}\x1e2`);
  await settled();
  assert.deepEqual(packets, [OPEN, '2']);
  assert.equal(requests[1].url.searchParams.get('sid'), 'e1');
  polling.send('a');
  polling.send('b');
  polling.send('c');
  assert.deepEqual([requests[2].method, requests[2].body], ['POST', 'a']);
  answers[2]('ok');
  await settled();
  assert.equal(requests[3].body, 'b\x1ec');
  answers[1]('', false);
  await settled();
  polling.close();
  assert.equal(closes, 1);
  assert.equal(requests.length, 4);
});
