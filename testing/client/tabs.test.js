// Two windows of one chat, the queue between them, and the call order of the reference front-end.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { newId, rowsOf, terminals, textOf } from './lib/chat.js';
import { BOB, suite } from './lib/suite.js';

const use = suite(['limits {', 'queue_length 8', '}']);

/** windows opens two sockets that watch one new session. */
async function windows(t) {
  const session = newId('s');
  const [a, b] = [await use.open(t), await use.open(t)];
  await a.resume(session);
  await b.resume(session);
  return { session, a, b };
}

const ended = (remaining) => ({ name, payload }) => ['run.completed', 'run.failed'].includes(name) && payload.queue_remaining === remaining;

test('the other window sees the message and everything after it (CR-22, CR-23, CR-24, RES-05)', async (t) => {
  const { session, a, b } = await windows(t);
  const queueId = a.run(session, 'from a');
  const seenA = await a.until(ended(0));
  const seenB = await b.until(ended(0));
  const names = (events) => events.map(({ name }) => name);
  assert.deepEqual(names(seenB).filter((name) => name !== 'run.peer_user_message'), names(seenA));
  const at = names(seenB).indexOf('run.peer_user_message');
  assert.ok(at >= 0 && at < names(seenB).indexOf('run.started'), 'before run.started');
  const { message } = seenB[at].payload;
  assert.deepEqual([message.id, message.role, message.content], [queueId, 'user', 'from a']);
  assert.ok(Number.isInteger(message.timestamp) && message.timestamp > 1.7e9 && message.timestamp < 1e11, 'CR-14: seconds');
  assert.equal(names(seenA).filter((name) => name === 'run.started').length, 1, 'CR-25');
});

test('messages of both windows wait and run in the order of arrival (CR-45, CR-46, CR-47, CR-48, CR-49, QUE-01, QUE-02)', async (t) => {
  const { session, a, b } = await windows(t);
  await use.stack.gateway.forget();
  const first = a.run(session, '[[hold]]');
  await use.stack.gateway.held(1);
  const ids = [];
  const texts = ['two', 'three', 'four', 'five'];
  for (const [i, text] of texts.entries()) {
    const sender = i % 2 ? b : a;
    ids.push(sender.run(session, text));
    for (const watcher of [a, b]) {
      const queued = await watcher.next('run.queued');
      assert.equal(queued.queue_length, i + 1);
      assert.deepEqual(queued.queued_messages.map(({ id }) => id), ids, 'oldest first');
      assert.ok(queued.queued_messages.every(({ queued: waits, role }) => waits === true && role === 'user'));
    }
  }
  await use.stack.gateway.release();
  for (const watcher of [a, b]) {
    const events = await watcher.until(ended(0));
    const endings = events.filter(({ name }) => name === 'run.completed').map(({ payload }) => payload.queue_remaining);
    assert.deepEqual(endings, [4, 3, 2, 1, 0]);
    const dequeued = events.filter(({ name }) => name === 'run.queued').map(({ payload }) => [payload.dequeued_queue_id, payload.queue_length, payload.queued_messages.map(({ id }) => id)]);
    assert.deepEqual(dequeued, ids.map((id, i) => [id, 3 - i, ids.slice(i + 1)]));
    const order = events.map(({ name }) => name).filter((name) => ['run.completed', 'run.queued', 'run.started'].includes(name));
    assert.deepEqual(order, ['run.completed', ...texts.flatMap(() => ['run.queued', 'run.started', 'run.completed'])]);
  }
  const peers = (chat) => chat.of(session, 'run.peer_user_message').map(({ message }) => message.id);
  assert.deepEqual(peers(a), [ids[1], ids[3]]);
  assert.deepEqual(peers(b), [first, ids[0], ids[2]]);
  const rows = rowsOf(await a.resume(session));
  assert.deepEqual(rows.filter(([role]) => role === 'user').map(([, text]) => text), ['[[hold]]', ...texts]);
  const turns = await use.stack.gateway.turns();
  assert.equal(turns.length, 5);
  assert.deepEqual(turns[2].conversation_history.map(({ role }) => role), ['user', 'assistant', 'user', 'assistant'], 'CR-90, CR-41');
  assert.equal(turns[2].store, false, 'CR-41');
});

test('a waiting message is cancelled by either window (CR-50, CR-51)', async (t) => {
  const { session, a, b } = await windows(t);
  a.run(session, '[[hold]]');
  await use.stack.gateway.held(1);
  const ids = [a.run(session, 'first'), a.run(session, 'second')];
  await b.next('run.queued', ({ queue_length: length }) => length === 2);
  b.emit('cancel_queued_run', { session_id: session, queue_id: ids[0] });
  b.emit('cancel_queued_run', { session_id: session, queue_id: 'unknown' });
  for (const watcher of [a, b]) {
    const { queued_messages: left } = await watcher.next('run.queued', ({ queue_length: length, queued_messages: list }) => length === 1 && list[0].id === ids[1]);
    assert.deepEqual(left.map(({ content }) => content), ['second']);
  }
  assert.deepEqual(await b.marker(), [], 'nothing for the unknown id');
  await use.stack.gateway.release();
  await a.until(ended(0));
  assert.deepEqual(rowsOf(await a.resume(session)).filter(([role]) => role === 'user').map(([, text]) => text), ['[[hold]]', 'second']);
});

for (const [how, head] of Object.entries({ 'a refusal': '[[fail 500]]', 'a failed response': '[[failed]]', 'an early end': '[[eof]]', 'a broken connection': '[[reset]]' })) {
  test(`the queue goes on after ${how} at its head (CR-46, QUE-03)`, async (t) => {
    const { session, a, b } = await windows(t);
    a.run(session, '[[hold]]');
    await use.stack.gateway.held(1);
    const ids = [];
    for (const [sender, text] of [[a, head], [b, 'two'], [a, 'three']]) {
      ids.push(sender.run(session, text));
      await a.next('run.queued');
    }
    await use.stack.gateway.release();
    for (const watcher of [a, b]) {
      const events = await watcher.until(ended(0));
      assert.deepEqual(terminals(events), ['run.completed', 'run.failed', 'run.completed', 'run.completed']);
      assert.deepEqual(events.filter(({ payload }) => payload?.dequeued_queue_id).map(({ payload }) => payload.dequeued_queue_id), ids);
      const failure = events.find(({ name }) => name === 'run.failed').payload;
      assert.equal(failure.queue_remaining, 2);
    }
    const resumed = await a.resume(session);
    assert.deepEqual([resumed.isWorking, resumed.queueLength], [false, 0]);
    assert.deepEqual(rowsOf(resumed).filter(([role]) => role === 'user').map(([, text]) => text), ['[[hold]]', head, 'two', 'three'], 'the text of the failed one is kept');
  });
}

test('a full queue refuses the next message and keeps the others', async (t) => {
  const { session, a } = await windows(t);
  a.run(session, '[[hold]]');
  await use.stack.gateway.held(1);
  for (let i = 1; i <= 8; i += 1) a.run(session, `m${i}`);
  await a.next('run.queued', ({ queue_length: length }) => length === 8);
  const refused = a.run(session, 'one too many');
  const failure = await a.next('run.failed');
  assert.equal(typeof failure.error, 'string');
  assert.ok(failure.queue_id === undefined || failure.queue_id === refused);
  await use.stack.gateway.release();
  const events = await a.until(ended(0));
  assert.equal(terminals(events).length, 9);
});

test('two chats on one socket stay apart (RES-04, CR-12)', async (t) => {
  const chat = await use.open(t);
  const other = await use.open(t);
  const [s1, s2] = [newId('s'), newId('s')];
  await other.resume(s2);
  chat.run(s1, '[[slow 30 1ms]]');
  chat.run(s2, 'second chat');
  await chat.next('run.completed');
  await chat.next('run.completed');
  assert.equal(textOf(chat.events.filter(({ payload }) => payload?.session_id === s2)), 'echo: second chat');
  assert.match(textOf(chat.events.filter(({ payload }) => payload?.session_id === s1)), /^word1 .*word30 $/);
  await other.marker();
  assert.deepEqual(other.of(s1), []);
});

test('a message sent in the closing moment always runs (QUE-06, CR-27)', async (t) => {
  const { session, a, b } = await windows(t);
  const rounds = 40;
  for (let i = 0; i < rounds; i += 1) {
    const first = a.run(session, `a${i}`);
    await b.next('run.peer_user_message', ({ message }) => message.id === first);
    // B answers at a different point of A's run each time: it runs at once, or waits and then runs.
    const points = ['run.started', 'message.delta', 'usage.updated', 'run.completed'];
    await b.next(points[i % points.length]);
    const id = b.run(session, `b${i}`);
    const own = ({ name, payload }) => name === 'run.peer_user_message' && payload.message.id === id;
    await a.until(own, `the message of b in round ${i}`);
    await a.until(ended(0), `the end of round ${i}`);
    await b.marker();
  }
  const resumed = await a.resume(session);
  assert.deepEqual([resumed.isWorking, resumed.queueLength], [false, 0]);
  const users = rowsOf(resumed).filter(([role]) => role === 'user').map(([, text]) => text);
  assert.deepEqual(users, Array.from({ length: rounds }, (_, i) => [`a${i}`, `b${i}`]).flat());
});

test('call order of the reference front-end: buffered first message, discarded socket, profile switch, double resume (CR-55, CR-100)', async (t) => {
  // A socket that is thrown away before it is connected takes its buffered packets with it (chat-run 1.3).
  const session = newId('s');
  const discarded = use.dial(t, BOB);
  discarded.run(session, 'never sent');
  discarded.socket.removeAllListeners();
  discarded.socket.disconnect();
  // The next one emits at once, before it is connected.
  const page = use.dial(t, BOB);
  page.run(session, 'first', { model: 'some-model', provider: 'some-provider', model_groups: [{ provider: 'some-provider', models: ['some-model'] }] });
  await page.until(ended(0));
  assert.deepEqual(rowsOf(await page.resume(session))[0], ['user', 'first']);
  // A tab that becomes visible asks twice; both are answered, in order.
  page.emit('resume', { session_id: session, profile: 'default' });
  page.emit('resume', { session_id: newId('other'), profile: 'default' });
  page.emit('resume', { session_id: session, profile: 'default' });
  const answers = [await page.next('resumed'), await page.next('resumed'), await page.next('resumed')];
  assert.deepEqual(answers.map((answer) => answer.messages.length), [2, 0, 2]);
  // A chat of another profile needs another socket; the run of the first goes on without it.
  page.run(session, '[[hold]]');
  await use.stack.gateway.held(1);
  page.socket.removeAllListeners();
  page.socket.disconnect();
  const work = await use.open(t, BOB, { query: { profile: 'work' } });
  const other = newId('w');
  await work.resume(other);
  work.run(other, 'at work', { profile: 'work' });
  await work.until(ended(0));
  work.close();
  const back = await use.open(t, BOB);
  const resumed = await back.resume(session);
  assert.equal(resumed.isWorking, true, 'CR-10');
  await use.stack.gateway.release();
  await back.until(ended(0));
  assert.deepEqual(rowsOf(await back.resume(session)).at(-1), ['assistant', 'held released']);
});
