// Stop, in every phase of a run.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { describe, newId, rowsOf, terminals, textOf } from './lib/chat.js';
import { suite } from './lib/suite.js';

const use = suite();

/** stoppedRun runs input, aborts where reached() says, and checks what every abort must show. */
async function stoppedRun(t, input, reached) {
  const chat = await use.open(t);
  const session = newId('s');
  await chat.resume(session);
  chat.run(session, input);
  await reached(chat);
  chat.emit('abort', { session_id: session });
  const events = await chat.until(({ name }) => name === 'abort.completed', 'abort.completed');
  const started = events.find(({ name }) => name === 'abort.started');
  assert.equal(started?.payload.graceMs, 5000, 'CR-65');
  const { synced, queue_length: waiting } = events.at(-1).payload;
  assert.equal(typeof synced, 'boolean');
  assert.ok(!waiting, 'CR-67');
  const resumed = await chat.resume(session);
  assert.equal(resumed.isWorking, false, 'CR-68');
  assert.deepEqual(terminals(chat.events), ['abort.completed'], 'CR-26, CR-66');
  assert.equal(rowsOf(resumed)[0][1], input, 'ABT-05: the message stays');
  return { chat, session, resumed };
}

const phases = {
  'before any answer of the gateway (CR-70, ABT-01)': ['[[mute]]', () => use.stack.gateway.held(1), []],
  'after response.created (CR-70)': ['[[silent]]', (chat) => chat.next('run.started'), []],
  'in mid-text (CR-69, ABT-04)': ['[[hold]]', (chat) => chat.next('message.delta'), ['held ']],
  'in a tool call (CR-69)': ['[[tool hold]]', (chat) => chat.next('tool.started'), ['One.']],
};

for (const [name, [input, reached, texts]] of Object.entries(phases)) {
  test(`stop ${name}`, async (t) => {
    const { chat, session, resumed } = await stoppedRun(t, input, reached);
    const shown = rowsOf(resumed).filter(([role, text]) => role === 'assistant' && text).map(([, text]) => text);
    assert.deepEqual(shown, texts);
    chat.run(session, 'next');
    assert.equal(textOf(await chat.until(({ name: event }) => event === 'run.completed')), 'echo: next', 'ABT-03: nothing of the old run');
  });
}

test('stop right after send, then another message at once (CR-70, ABT-01)', async (t) => {
  const chat = await use.open(t);
  for (let i = 0; i < 10; i += 1) {
    const session = newId('s');
    chat.run(session, '[[mute]]');
    chat.emit('abort', { session_id: session });
    chat.run(session, 'and then');
    const events = await chat.until(({ name, payload }) => name === 'run.completed' && payload.session_id === session, `run.completed in round ${i}`);
    assert.deepEqual(terminals(events), ['abort.completed', 'run.completed']);
    assert.equal(textOf(events), 'echo: and then');
    assert.deepEqual(rowsOf(await chat.resume(session)).map(([, text]) => text), ['[[mute]]', 'and then', 'echo: and then']);
  }
});

test('repeated stops of both windows end the run once (CR-71, RES-05)', async (t) => {
  const session = newId('s');
  const [a, b] = [await use.open(t), await use.open(t)];
  await b.resume(session);
  a.run(session, '[[hold]]');
  await b.next('message.delta');
  await a.next('message.delta');
  for (const chat of [a, b, a, b]) chat.emit('abort', { session_id: session });
  for (const chat of [a, b]) {
    await chat.next('abort.completed');
    await chat.marker();
    const endings = chat.of(session, 'abort.completed').filter(({ ignored }) => !ignored);
    assert.equal(endings.length, 1);
    assert.equal(chat.of(session, 'abort.started').length, 1);
  }
});

test('stop with messages waiting: the next one follows (CR-46, CR-67, chat-run appendix C)', async (t) => {
  const session = newId('s');
  const [a, b] = [await use.open(t), await use.open(t)];
  await b.resume(session);
  a.run(session, '[[hold]]');
  await a.next('message.delta');
  const ids = [];
  for (const [sender, text] of [[a, 'one'], [b, 'two']]) {
    ids.push(sender.run(session, text));
    await b.next('run.queued');
  }
  b.emit('abort', { session_id: session });
  for (const chat of [a, b]) {
    const events = await chat.until(({ name, payload }) => name === 'run.completed' && payload.queue_remaining === 0);
    assert.deepEqual(terminals(events), ['abort.completed', 'run.completed', 'run.completed']);
    const end = events.findIndex(({ name }) => name === 'abort.completed');
    assert.equal(events[end].payload.queue_length, 2);
    const dequeued = events[end + 1];
    assert.deepEqual([dequeued.name, dequeued.payload.dequeued_queue_id, dequeued.payload.queue_length], ['run.queued', ids[0], 1]);
    assert.deepEqual(dequeued.payload.queued_messages.map(({ id }) => id), [ids[1]]);
  }
});

test('stop and finish at the same moment: one ending a run (ABT-06)', async (t) => {
  const [chat, witness] = [await use.open(t), await use.open(t)];
  const points = ['run.started', 'message.delta', 'usage.updated', 'run.completed'];
  for (let i = 0; i < 40; i += 1) {
    const session = newId('s');
    await witness.resume(session);
    chat.run(session, `round ${i}`);
    await chat.next(points[i % points.length], (payload) => payload.session_id === session);
    chat.emit('abort', { session_id: session });
    const after = chat.run(session, 'after');
    const own = ({ name, payload }) => name === 'run.peer_user_message' && payload.message.id === after;
    const seen = await witness.until(own, `the second message of round ${i}`);
    seen.push(...(await witness.until(({ name }) => ['run.completed', 'run.failed'].includes(name), `the end of round ${i}`)));
    assert.equal(terminals(seen).length, 2, `round ${i}:\n${describe(seen)}`);
    const resumed = await witness.resume(session);
    assert.equal(resumed.isWorking, false);
    assert.deepEqual(rowsOf(resumed).filter(([role]) => role === 'user').map(([, text]) => text), [`round ${i}`, 'after']);
  }
});
