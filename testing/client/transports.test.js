// Connecting and one whole run over every transport.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { newId, rowsOf, terminals, textOf } from './lib/chat.js';
import { suite } from './lib/suite.js';

const use = suite();

const transports = {
  'websocket first, as the reference front-end connects (CR-1)': { transports: ['websocket', 'polling'] },
  'websocket only (CR-1)': { transports: ['websocket'] },
  'polling only (CR-2, SIO-01)': { transports: ['polling'], upgrade: false },
  'polling, then the upgrade (CR-2, SIO-03)': { transports: ['polling', 'websocket'] },
};

for (const [name, options] of Object.entries(transports)) {
  test(`a run over ${name}`, async (t) => {
    const chat = use.dial(t, undefined, options);
    const { engine } = chat.socket.io;
    const upgraded = new Promise((resolve) => engine.once('upgrade', resolve));
    await chat.connected();
    if (options.transports[0] === 'polling' && options.transports.length > 1) await upgraded;
    const last = options.upgrade === false ? 'polling' : 'websocket';
    assert.equal(engine.transport.name, last);

    const session = newId('s');
    assert.deepEqual((await chat.resume(session)).messages, [], 'CR-60: an unknown session is empty');
    const queueId = chat.run(session, 'héllo 🌍');
    const events = await chat.until((event) => event.name === 'run.completed', 'run.completed');
    const started = events.findIndex(({ name: event }) => event === 'run.started');
    assert.ok(started >= 0, 'CR-25: run.started');
    assert.equal(textOf(events.slice(started)), 'echo: héllo 🌍');
    for (const event of events) {
      assert.equal(event.payload.event, event.name, 'CR-11');
      assert.equal(event.payload.session_id, session, 'CR-12');
    }
    assert.equal(events.at(-1).payload.queue_remaining, 0, 'CR-47');
    assert.equal(events.at(-2).name, 'usage.updated', 'CR-42');
    assert.ok(!events.some(({ name: event }) => event === 'run.peer_user_message'), `CR-23: none to the sender of ${queueId}`);

    const resumed = await chat.resume(session);
    assert.deepEqual(rowsOf(resumed), [['user', 'héllo 🌍'], ['assistant', 'echo: héllo 🌍']]);
    assert.equal(resumed.isWorking, false);
    assert.deepEqual(resumed.events, [], 'CR-56, CR-63');
    assert.equal(engine.transport.name, last);
  });
}

test('the handshake announces what the reference announces (CR-3)', async () => {
  const answer = await fetch(`${use.stack.url}/socket.io/?EIO=4&transport=polling`);
  const opened = JSON.parse((await answer.text()).slice(1));
  assert.deepEqual(opened.upgrades, ['websocket']);
  assert.equal(opened.pingInterval, 25_000);
  assert.equal(opened.pingTimeout, 90_000);
  assert.ok(opened.maxPayload >= 1_000_000);
});

test('one connection carries several namespaces; an unknown one is refused alone (CR-4)', async (t) => {
  const chat = await use.open(t);
  const group = chat.socket.io.socket('/group-chat');
  const refusal = await new Promise((resolve) => group.once('connect_error', resolve).connect());
  assert.equal(refusal.message, 'Invalid namespace');
  const session = newId('s');
  chat.run(session, 'still here');
  assert.equal(textOf(await chat.until(({ name }) => name === 'run.completed')), 'echo: still here');
});

test('a handshake without profile is the default profile (CR-5)', async (t) => {
  const chat = await use.open(t, undefined, { query: {} });
  chat.run(newId('s'), 'no profile', { profile: undefined });
  await chat.next('run.completed');
});

test('deltas, tool events and text keep their order (CR-13, CR-31, CR-32, CR-43)', async (t) => {
  const chat = await use.open(t);
  const session = newId('s');
  chat.run(session, '[[tool]]');
  const events = await chat.until(({ name }) => name === 'run.completed');
  const order = events.filter(({ name }) => ['message.delta', 'tool.started', 'tool.completed'].includes(name)).map(({ name, payload }) => payload.delta?.trim() || name);
  assert.deepEqual(order, ['One.', 'tool.started', 'tool.completed', 'Two.']);
  const started = events.find(({ name }) => name === 'tool.started').payload;
  assert.equal(started.tool, 'terminal');
  assert.equal(started.name, 'terminal');
  assert.equal(started.preview, 'echo hi', 'CR-34');
  const completed = events.find(({ name }) => name === 'tool.completed').payload;
  assert.equal(completed.tool_call_id, started.tool_call_id);
  assert.equal(typeof completed.output, 'string');
  assert.ok(!('error' in completed), 'CR-33');
  const rows = (await chat.resume(session)).messages;
  assert.deepEqual(rows.map(({ role }) => role), ['user', 'assistant', 'assistant', 'tool', 'assistant'], 'CR-35');
  assert.ok(rows.filter(({ role }) => role === 'tool').every((row) => row.tool_call_id), 'CR-61');
});

test('a content block array is taken, shown and sent as parts (CR-15)', async (t) => {
  const chat = await use.open(t);
  const session = newId('s');
  const blocks = [{ type: 'text', text: 'block text' }];
  chat.run(session, blocks);
  const events = await chat.until(({ name }) => name === 'run.completed');
  assert.equal(textOf(events), 'echo: block text');
  assert.equal((await chat.resume(session)).messages[0].content, JSON.stringify(blocks));
});

test('failures of the gateway end in one run.failed with a string (CR-26, CR-38, CR-39, CR-40)', async (t) => {
  const chat = await use.open(t);
  const cases = {
    '[[failed]]': /overloaded/,
    '[[eof]]': /^Response stream ended without a terminal event$/,
    '[[fail 500]]': /^Upstream 500: /,
    '[[html]]': /./,
    '[[cut]]': /./,
    '[[reset]]': /./,
  };
  for (const [input, text] of Object.entries(cases)) {
    const session = newId('s');
    chat.run(session, input);
    const events = await chat.until(({ name }) => name === 'run.failed', `run.failed for ${input}`);
    const { error, queue_remaining: remaining } = events.at(-1).payload;
    assert.equal(typeof error, 'string', input);
    assert.match(error, text, input);
    assert.ok(!error.includes('\n'), `${input}: one line`);
    assert.equal(remaining, 0, input);
    chat.run(session, 'again');
    assert.deepEqual(terminals(await chat.until(({ name }) => name === 'run.completed')), ['run.completed'], `CR-27 after ${input}`);
  }
});
