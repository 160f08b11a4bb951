// Lost connections in the middle of runs.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { newId, rowsOf, terminals, textOf } from './lib/chat.js';
import { openLink } from './lib/link.js';
import { suite } from './lib/suite.js';

const use = suite(['limits {', 'event_rate 100000', '}']);

// Well below the connections that one user may have.
const MAX_VIEWS = 30;

const words = (n) => Array.from({ length: n }, (_, i) => `word${i + 1} `).join('');

const BROKEN = 'the network breaks';
const cuts = {
  'the client closes its engine': (chat) => chat.socket.io.engine.close(),
  [BROKEN]: (_, link) => link.cut(),
};

for (const [how, cut] of Object.entries(cuts)) {
  for (const transport of ['websocket', 'polling']) {
    test(`recovery in mid-run over ${transport}, ${how}: nothing lost, nothing doubled (CR-9, CR-10, RES-02)`, async (t) => {
      const link = await openLink(t, use.stack.url);
      const chat = use.dial(t, undefined, { url: link.url, transports: [transport], upgrade: false });
      await chat.connected();
      const { id } = chat.socket;
      const session = newId('s');
      chat.run(session, '[[hold]]');
      await use.stack.gateway.held(1);
      await chat.next('message.delta');
      cut(chat, link);
      // The client's HTTP library repeats a broken poll by itself; only then is there nothing to recover.
      if (transport === 'websocket' || how !== BROKEN) {
        await chat.next('disconnect');
        await chat.connected();
        assert.equal(chat.socket.recovered, true);
      }
      assert.equal(chat.socket.id, id);
      await use.stack.gateway.release();
      await chat.next('run.completed');
      const events = chat.events.filter(({ payload }) => payload?.session_id === session);
      assert.equal(textOf(events), 'held released');
      assert.deepEqual(terminals(events), ['run.completed']);
      assert.equal(events.filter(({ name }) => name === 'run.started').length, 1);
    });
  }
}

test('what ended while the client was away is sent after it (RES-01)', async (t) => {
  const link = await openLink(t, use.stack.url);
  const chat = use.dial(t, undefined, { url: link.url, reconnection: false });
  await chat.connected();
  const witness = await use.open(t);
  const session = newId('s');
  await witness.resume(session);
  chat.run(session, '[[hold]]');
  await chat.next('message.delta');
  link.cut();
  await chat.next('disconnect');
  await use.stack.gateway.release();
  await witness.next('run.completed');
  chat.socket.connect();
  await chat.connected();
  assert.equal(chat.socket.recovered, true);
  const events = await chat.until(({ name }) => name === 'run.completed');
  assert.equal(textOf(events), 'released');
});

test('many cuts in a fast run: recovery alone rebuilds the text (RES-02)', async (t) => {
  const link = await openLink(t, use.stack.url);
  const chat = use.dial(t, undefined, { url: link.url, reconnectionDelay: 5, reconnectionDelayMax: 20 });
  await chat.connected();
  const session = newId('s');
  chat.run(session, '[[slow 400 5ms]]');
  let ended = false;
  for (let i = 0; i < 8 && !ended; i += 1) {
    const events = await chat.until(({ name }) => name === 'message.delta' || name === 'run.completed');
    ended = events.at(-1).name === 'run.completed';
    if (ended) break;
    link.cut();
    await chat.next('disconnect');
    await chat.connected();
    assert.equal(chat.socket.recovered, true, `cut ${i + 1}`);
  }
  assert.ok(!ended, 'the run must outlast the cuts, else this test shows nothing');
  await chat.next('run.completed');
  assert.equal(textOf(chat.events), words(400));
});

test('resume at any moment continues the text exactly (CR-59, RES-02)', async (t) => {
  const chat = await use.open(t);
  const session = newId('s');
  chat.run(session, '[[slow 300 5ms]]');
  await chat.next('run.started');
  const views = [];
  for (let ended = false; !ended && views.length < MAX_VIEWS; ) {
    const viewer = await use.open(t);
    const resumed = await viewer.resume(session);
    views.push({ viewer, from: viewer.read, resumed });
    ended = !resumed.isWorking;
  }
  assert.ok(views.length > 2, 'several resumes in one run');
  await chat.next('run.completed');
  for (const { viewer, from, resumed } of views) {
    const shown = resumed.messages.filter(({ role }) => role === 'assistant').map(({ content }) => content).join('');
    if (resumed.isWorking) await viewer.next('run.completed');
    assert.equal(shown + textOf(viewer.events.slice(from)), words(300));
    if (resumed.isWorking) assert.deepEqual(terminals(viewer.events), ['run.completed']);
  }
});

test('resume in mid-run shows the running tool and the state (CR-53, CR-54, CR-57)', async (t) => {
  const chat = await use.open(t);
  const session = newId('s');
  chat.run(session, '[[tool hold]]');
  await chat.next('tool.started');
  await use.stack.gateway.held(1);
  const queued = chat.run(session, 'after');
  await chat.next('run.queued');
  const late = await use.open(t);
  const resumed = await late.resume(session);
  assert.equal(resumed.isWorking, true);
  assert.equal(resumed.isAborting, false);
  assert.equal(resumed.queueLength, 1);
  assert.deepEqual(resumed.queueMessages.map(({ id, content, queued: waits }) => [id, content, waits]), [[queued, 'after', true]]);
  assert.ok(resumed.events.some(({ event }) => event === 'tool.started'));
  assert.ok(!('event' in resumed), 'E1');
  for (const field of ['inputTokens', 'outputTokens', 'messageTotal', 'messageLoadedCount']) assert.equal(typeof resumed[field], 'number', field);
  assert.equal(typeof resumed.hasMoreBefore, 'boolean', 'CR-97');
  assert.ok(!chat.events.some(({ name }) => name === 'resumed'), 'CR-53: to the one socket only');
  await use.stack.gateway.release();
  const events = await late.until(({ name, payload }) => name === 'run.completed' && payload.queue_remaining === 0);
  assert.deepEqual(terminals(events), ['run.completed', 'run.completed']);
});

test('a message sent again after a reconnect runs once (QUE-04)', async (t) => {
  const chat = await use.open(t);
  const session = newId('s');
  const payload = { session_id: session, input: '[[hold]]', queue_id: newId('q') };
  chat.emit('run', payload);
  await use.stack.gateway.held(1);
  chat.socket.io.engine.close();
  await chat.next('disconnect');
  for (let i = 0; i < 3; i += 1) chat.emit('run', payload);
  await chat.connected();
  await chat.marker();
  await use.stack.gateway.release();
  await chat.resume(session);
  const { messages, isWorking, queueLength } = await settled(chat, session);
  assert.deepEqual([isWorking, queueLength], [false, 0]);
  assert.deepEqual(messages.map(({ role }) => role), ['user', 'assistant']);
  chat.emit('run', payload);
  await chat.marker();
  assert.deepEqual(rowsOf(await chat.resume(session)).length, 2);
});

test('the edge crashes in mid-run: the client comes back, the queue goes on, nothing runs twice (CR-100, QUE-04, QUE-05, RES-03)', async (t) => {
  const chat = await use.open(t);
  const session = newId('s');
  const ids = [chat.run(session, '[[hold]]')];
  await chat.next('message.delta');
  ids.push(chat.run(session, '[[hold]] second'), chat.run(session, 'third'));
  await chat.next('run.queued', ({ queue_length: length }) => length === 2);
  await use.stack.gateway.forget();
  await use.stack.crash();
  await chat.connected();
  assert.equal(chat.socket.recovered, false);
  const resumed = await chat.resume(session);
  assert.deepEqual(resumed.messages.filter(({ role }) => role === 'user').map(({ content }) => content), ['[[hold]]', '[[hold]] second']);
  assert.deepEqual([resumed.isWorking, resumed.queueMessages.map(({ id }) => id)], [true, [ids[2]]]);
  // A client that is not sure sends everything again.
  for (const [i, input] of ['[[hold]]', '[[hold]] second', 'third'].entries()) chat.emit('run', { session_id: session, queue_id: ids[i], input, source: 'cli', profile: 'default', model_groups: [] });
  await use.stack.gateway.release();
  const { messages } = await settled(chat, session);
  assert.deepEqual(messages.filter(({ role }) => role === 'user').map(({ content }) => content), ['[[hold]]', '[[hold]] second', 'third']);
  assert.equal((await use.stack.gateway.turns()).length, 2);
});

/** settled resumes until the session is idle; each answer comes after the event that changed the state. */
async function settled(chat, session) {
  for (;;) {
    const resumed = await chat.resume(session);
    if (!resumed.isWorking) return resumed;
    await chat.next('run.completed', (payload) => payload.session_id === session);
  }
}
