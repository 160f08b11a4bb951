// Who is let in, and what is refused without touching anybody else.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { io } from 'socket.io-client';

import { OPTIONS, newId, rowsOf, textOf } from './lib/chat.js';
import { ALICE, BOB, suite } from './lib/suite.js';

const use = suite(['limits {', 'message_size 1MB', 'event_rate 100000', '}']);

const refusals = {
  'a wrong token (CR-6)': { token: 'wrong-token-0123456789', text: 'Authentication failed' },
  'an empty token (CR-6)': { token: '', text: 'Authentication failed' },
  'a profile of somebody else (CR-7)': { token: ALICE, query: { profile: 'work' }, text: 'Profile access denied' },
};

for (const [name, { token, query, text }] of Object.entries(refusals)) {
  test(`${name} is answered with CONNECT_ERROR`, async (t) => {
    const chat = use.dial(t, token, query && { query });
    assert.equal((await chat.next('connect_error')).message, text);
    assert.equal(chat.socket.active, false, 'the client must not try again by itself');
  });
}

for (const namespace of ['/', '/chat-runX', '/group-chat']) {
  test(`the unknown namespace ${namespace} is refused (CR-4, SIO-08)`, async (t) => {
    const socket = io(use.stack.url + namespace, { ...OPTIONS, auth: { token: ALICE } });
    t.after(() => socket.close());
    const error = await new Promise((resolve) => socket.once('connect_error', resolve));
    assert.equal(error.message, 'Invalid namespace');
  });
}

test('profiles of a run: unknown, forbidden, allowed (CR-16, CR-17)', async (t) => {
  const alice = await use.open(t);
  const bob = await use.open(t, BOB);
  const failure = async (chat, profile) => {
    const session = newId('s');
    chat.run(session, 'hello', { profile });
    return (await chat.next('run.failed', (payload) => payload.session_id === session)).error;
  };
  assert.equal(await failure(bob, 'nowhere'), 'Profile "nowhere" does not exist');
  assert.equal(await failure(alice, 'work'), 'Profile "work" is not available for this user');
  bob.run(newId('s'), 'at work', { profile: 'work' });
  assert.equal(textOf(await bob.until(({ name }) => name === 'run.completed')), 'echo: at work');
});

test('a session of somebody else is neither read, stopped nor continued (CR-62)', async (t) => {
  const alice = await use.open(t);
  const bob = await use.open(t, BOB);
  const session = newId('s');
  alice.run(session, '[[hold]] secret');
  await use.stack.gateway.held(1);
  bob.emit('resume', { session_id: session });
  bob.emit('abort', { session_id: session });
  bob.run(session, 'let me in');
  const seen = await bob.marker();
  assert.ok(!JSON.stringify(seen).includes('secret'), 'nothing of the session reaches him');
  assert.ok(seen.some(({ name }) => name === 'run.failed'), 'his message is answered');
  await use.stack.gateway.release();
  await alice.next('run.completed');
  assert.deepEqual(rowsOf(await alice.resume(session)).map(([role]) => role), ['user', 'assistant']);
  assert.ok(!JSON.stringify(await bob.marker()).includes('released'));
});

const nonsense = [undefined, null, 7, 'text', true, [], [1], {}, { session_id: 7 }, { session_id: {} }, { session_id: '' }, { session_id: '../../etc' }, { session_id: 'x'.repeat(200) }, { session_id: 'bad id' }];

test('malformed payloads are ignored or refused, and hurt nobody (CR-28, SIO-08)', async (t) => {
  const chat = await use.open(t);
  const other = await use.open(t);
  const session = newId('s');
  other.run(session, '[[hold]]');
  await use.stack.gateway.held(1);
  for (const name of ['run', 'resume', 'abort', 'cancel_queued_run', 'approval.respond', 'foo', 'message']) {
    for (const payload of nonsense) chat.emit(name, ...(payload === undefined ? [] : [payload]));
  }
  const inputs = [undefined, null, 7, {}, [], [1], ['text'], '', [{ type: 7 }], [{ type: 'text' }], [{ type: 'text', text: 7 }]];
  for (const input of inputs) chat.emit('run', { session_id: newId('bad'), input });
  for (const field of ['queue_id', 'profile', 'model', 'provider', 'model_groups', 'source', 'instructions']) {
    chat.emit('run', { session_id: newId('bad'), input: 'x', [field]: { a: 1 } });
  }
  chat.emit('run', Buffer.from('binary'));
  const events = await chat.marker();
  for (const { name, payload } of events) {
    const harmless = payload.session_id?.startsWith('bad') || name === 'resumed' || (name === 'run.failed' && typeof payload.error === 'string');
    assert.ok(harmless, `${name} ${JSON.stringify(payload)}`);
  }
  assert.ok(chat.socket.connected, 'the socket itself lives on');
  await use.stack.gateway.release();
  await other.next('run.completed');
  assert.ok(!other.events.some(({ name }) => name === 'disconnect'));
  const fine = newId('s');
  chat.run(fine, 'fine');
  await chat.next('run.completed', (payload) => payload.session_id === fine);
  assert.deepEqual(rowsOf(await chat.resume(fine)).at(-1), ['assistant', 'echo: fine']);
});

test('events in an idle session change nothing (CR-51, CR-64)', async (t) => {
  const chat = await use.open(t);
  const session = newId('s');
  chat.run(session, 'one');
  await chat.next('run.completed');
  const late = await use.open(t);
  await late.resume(session);
  late.emit('cancel_queued_run', { session_id: session, queue_id: 'nothing' });
  late.emit('abort', { session_id: session });
  const ignored = await late.next('abort.completed');
  assert.deepEqual([ignored.synced, ignored.ignored], [false, true]);
  assert.deepEqual(await late.marker(), []);
  assert.deepEqual(await chat.marker(), [], 'the answer is for the asking socket only');
  const { messages, isWorking, queueLength } = await late.resume(session);
  assert.deepEqual([messages.length, isWorking, queueLength], [2, false, 0]);
});

for (const transport of ['websocket', 'polling']) {
  test(`a message above maxPayload closes only its own connection, over ${transport} (SIO-04)`, async (t) => {
    const big = await use.open(t, ALICE, { transports: [transport], upgrade: false, reconnection: false });
    const other = await use.open(t);
    const session = newId('s');
    big.run(session, 'x'.repeat(900_000));
    const whole = await big.until(({ name }) => name === 'run.completed', 'the answer to 0.9 MB');
    assert.equal(textOf(whole).length, 'echo: '.length + 900_000);
    big.run(session, 'x'.repeat(1_100_000));
    await big.next('disconnect');
    other.run(newId('s'), 'unharmed');
    assert.equal(textOf(await other.until(({ name }) => name === 'run.completed')), 'echo: unharmed');
    assert.ok(!other.events.some(({ name }) => name === 'disconnect'));
    assert.equal((await other.resume(session)).messages.length, 2, 'the refused message left nothing');
  });
}

test('unicode survives both ways: emoji, combining marks, right to left, U+2028, lone surrogates', async (t) => {
  const chat = await use.open(t);
  const session = newId('s');
  const texts = ['👨‍👩‍👧‍👦 é ñ', 'שלום عليكم', 'line\u2028para\u2029end', 'tab\tquote"back\\slash\u0000nul', '日本語🗾'];
  for (const text of texts) {
    chat.run(session, text);
    assert.equal(textOf(await chat.until(({ name }) => name === 'run.completed')), `echo: ${text}`);
  }
  chat.run(session, 'lone \ud83d half');
  await chat.next('run.completed');
  const rows = rowsOf(await chat.resume(session)).filter(([role]) => role === 'user').map(([, content]) => content);
  assert.deepEqual(rows.slice(0, -1), texts);
  assert.match(rows.at(-1), /^lone .+ half$/);
});
