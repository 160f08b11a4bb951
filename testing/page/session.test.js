import assert from 'node:assert/strict';
import test from 'node:test';

import { newSession, prepend, reduce, submit } from '../../adapter/httpapi/page/static/session.js';

const play = (state, ...events) => events.reduce((now, [name, payload]) => reduce(now, name, payload), state);
const shown = (state) => state.items.map((item) => `${item.kind}:${item.text ?? item.name}`);
const message = (id, text = id) => ({ id, text, timestamp: 1 });
const loaded = (messages = [], more = {}) => reduce(newSession('s1'), 'resumed', { session_id: 's1', messages, isWorking: false, ...more });
const user = (id, content) => ({ id, role: 'user', content });
const assistant = (id, content, more = {}) => ({ id, role: 'assistant', content, ...more });
const call = (id, name, args = '{}') => ({ id, type: 'function', function: { name, arguments: args } });

test('a turn: the message is confirmed by run.started and the text streams into one bubble', () => {
  let state = submit(loaded(), message('m1', 'hi'));
  assert.equal(state.pending.length, 1);
  state = play(state, ['run.started', { run_id: 'r' }], ['message.delta', { delta: 'Hel' }], ['message.delta', { delta: 'lo' }]);
  assert.deepEqual(shown(state), ['user:hi', 'assistant:Hello']);
  assert.equal(state.items[1].streaming, true);
  assert.deepEqual([state.working, state.pending.length], [true, 0]);
  state = play(state, ['run.completed', { output: 'Hello', queue_remaining: 0, inputTokens: 3, outputTokens: 4 }]);
  assert.deepEqual(shown(state), ['user:hi', 'assistant:Hello']);
  assert.deepEqual([state.working, state.items[1].streaming], [false, false]);
  assert.deepEqual(state.usage, { input: 3, output: 4, context: undefined });
});

test('states and items are replaced, never changed', () => {
  const before = play(loaded(), ['message.delta', { delta: 'a' }]);
  const item = before.items[0];
  const after = reduce(before, 'message.delta', { delta: 'b' });
  assert.equal(item.text, 'a');
  assert.notEqual(after.items[0], item);
  assert.equal(after.items[0].key, item.key);
  assert.equal(reduce(after, 'unknown.event', {}), after);
  assert.equal(reduce(after, 'message.delta', undefined), after);
});

test('output of run.completed is shown only when no text came', () => {
  assert.deepEqual(shown(play(loaded(), ['run.started', {}], ['run.completed', { output: 'whole', queue_remaining: 0 }])), ['assistant:whole']);
  const silent = play(loaded(), ['run.started', {}], ['run.completed', { output: ' ', queue_remaining: 0 }]);
  assert.equal(silent.items[0].kind, 'error');
});

test('thoughts, tools and text keep their order', () => {
  const state = play(
    loaded(),
    ['run.started', {}],
    ['reasoning.delta', { text: 'hm' }],
    ['message.delta', { delta: 'before' }],
    ['tool.started', { tool_call_id: 'c1', tool: 'terminal', arguments: '{"command":"ls"}', preview: 'ls' }],
    ['tool.completed', { tool_call_id: 'c1', output: 'total 0', duration: 0.42 }],
    ['message.delta', { delta: 'after' }],
  );
  assert.deepEqual(shown(state), ['reasoning:hm', 'assistant:before', 'tool:terminal', 'assistant:after']);
  const tool = state.items[2];
  assert.deepEqual([tool.state, tool.output, tool.duration, tool.preview], ['done', 'total 0', 0.42, 'ls']);
});

test('a call id that a model uses again makes a new card in the next turn', () => {
  const turn = [['run.started', {}], ['tool.started', { tool_call_id: 'call_1', tool: 'terminal' }], ['tool.completed', { tool_call_id: 'call_1', output: 'x' }], ['run.completed', { output: 'ok', queue_remaining: 0 }]];
  let state = play(submit(loaded(), message('a')), ...turn);
  state = play(submit(state, message('b')), ...turn);
  const tools = state.items.filter((item) => item.kind === 'tool');
  assert.equal(tools.length, 2);
  assert.equal(new Set(state.items.map((item) => item.key)).size, state.items.length);
});

test('a completion without id ends the last running tool of that name, a foreign one makes its own card', () => {
  const state = play(
    loaded(),
    ['run.started', {}],
    ['tool.started', { tool_call_id: 'c1', tool: 'a' }],
    ['tool.started', { tool_call_id: 'c2', tool: 'b' }],
    ['tool.completed', { tool: 'a', output: '1', error: true }],
    ['tool.completed', { tool_call_id: 'late', tool: 'z', output: '2' }],
  );
  assert.deepEqual(state.items.map((item) => [item.name, item.state]), [['a', 'error'], ['b', 'running'], ['z', 'done']]);
});

test('endings settle what still runs', () => {
  const running = play(loaded(), ['run.started', {}], ['tool.started', { tool_call_id: 'c', tool: 't' }]);
  const state = (event, payload) => reduce(running, event, payload).items[0].state;
  assert.equal(state('run.completed', { output: '', queue_remaining: 0 }), 'done');
  assert.equal(state('run.failed', { error: 'x', queue_remaining: 0 }), 'error');
  assert.equal(state('abort.completed', { synced: true }), 'stopped');
});

test('Stop: stopping, then stopped, and the queue goes on', () => {
  let state = play(loaded(), ['run.started', {}], ['message.delta', { delta: 'a' }], ['abort.started', { graceMs: 5000 }]);
  assert.equal(state.stopping, true);
  state = reduce(state, 'abort.completed', { synced: true, queue_length: 1 });
  assert.deepEqual([state.stopping, state.working], [false, true]);
  assert.deepEqual(shown(state), ['assistant:a', 'notice:Stopped']);
  assert.equal(play(loaded(), ['abort.completed', { synced: false, ignored: true }]).items.length, 0);
});

test('queue: a waiting message leaves the pending ones, is cancelled, or moves into the transcript once', () => {
  const queued = (ids) => ({ queue_length: ids.length, queued_messages: ids.map((id) => ({ id, role: 'user', content: id, queued: true })) });
  let state = play(submit(loaded(), message('m1')), ['run.started', {}], ['message.delta', { delta: 'x' }]);
  state = submit(submit(state, message('q1')), message('q2'));
  state = play(state, ['run.queued', queued(['q1'])], ['run.queued', queued(['q1', 'q2'])]);
  assert.deepEqual([state.pending.length, state.queue.map((item) => item.id)], [0, ['q1', 'q2']]);
  state = play(state, ['run.queued', queued(['q2'])]);
  assert.deepEqual(state.queue.map((item) => item.id), ['q2']);
  state = play(
    state,
    ['run.completed', { output: 'x', queue_remaining: 1 }],
    ['run.queued', { queue_length: 0, dequeued_queue_id: 'q2', queued_messages: [] }],
    ['run.peer_user_message', { message: { id: 'q2', role: 'user', content: 'q2', timestamp: 1 } }],
    ['run.started', { queue_length: 0 }],
    ['message.delta', { delta: 'y' }],
  );
  assert.deepEqual(shown(state), ['user:m1', 'assistant:x', 'user:q2', 'assistant:y']);
  assert.equal(state.working, true);
});

test('a second window sees the message of the first', () => {
  const state = play(loaded(), ['run.peer_user_message', { message: { id: 'p1', role: 'user', content: '[{"type":"text","text":"hi"},{"type":"file","name":"a.txt","path":"x"}]' } }], ['run.started', {}], ['message.delta', { delta: 'yo' }]);
  assert.deepEqual(shown(state), ['user:hi\n[a.txt]', 'assistant:yo']);
});

test('a peer message does not confirm an own one that is still on its way', () => {
  let state = submit(loaded(), message('mine'));
  state = play(state, ['run.peer_user_message', { message: { id: 'theirs', content: 'theirs' } }], ['run.started', {}]);
  assert.deepEqual([shown(state), state.pending.map((own) => own.id)], [['user:theirs'], ['mine']]);
});

test('run.failed before run.started keeps the text and shows the error as a string', () => {
  let state = play(submit(loaded(), message('m1', 'hi')), ['run.failed', { error: 'The gateway does not answer', queue_remaining: 0 }]);
  assert.deepEqual(shown(state), ['user:hi', 'error:The gateway does not answer']);
  assert.deepEqual([state.working, state.pending.length], [false, 0]);
  state = reduce(loaded(), 'run.failed', { error: { message: 'as object' } });
  assert.deepEqual(shown(state), ['error:as object']);
});

test('an error that was streamed as if it were text is shown once, other text stays', () => {
  const fail = (text) => shown(play(loaded(), ['run.started', {}], ['message.delta', { delta: text }], ['run.failed', { error: 'Model provider: HTTP 401: no key', queue_remaining: 0 }]));
  assert.deepEqual(fail('HTTP 401: no key'), ['error:Model provider: HTTP 401: no key']);
  assert.deepEqual(fail('Half an answer'), ['assistant:Half an answer', 'error:Model provider: HTTP 401: no key']);
});

test('a refusal does not end the run that goes on, and gives the text back', () => {
  let state = play(submit(loaded(), message('m1')), ['run.started', {}]);
  state = reduce(submit(state, message('m2', 'too much')), 'run.failed', { session_id: 's1', queue_id: 'm2', error: 'The queue is full' });
  assert.equal(state.working, true);
  assert.deepEqual([state.items.at(-1).unsent, state.pending.length], ['too much', 0]);
  state = reduce(submit(loaded(), message('m3', 'no')), 'run.failed', { queue_id: 'm3', error: 'Not for you' });
  assert.deepEqual([shown(state), state.working], [['error:Not for you'], false]);
});

test('resumed: rows become items, tool results join their calls', () => {
  const state = loaded([
    user(1, 'list'),
    assistant(2, 'looking', { reasoning: 'why', tool_calls: [call('c1', 'terminal', '{"command":"ls"}'), call('c2', 'read_file')] }),
    { id: 3, role: 'tool', tool_call_id: 'c1', tool_name: 'terminal', content: 'total 0' },
    { id: 4, role: 'tool', tool_call_id: 'c2', tool_name: 'read_file', content: 'Error: no such file' },
    assistant(5, 'done'),
  ]);
  assert.deepEqual(shown(state), ['user:list', 'reasoning:why', 'assistant:looking', 'tool:terminal', 'tool:read_file', 'assistant:done']);
  assert.deepEqual(state.items.filter((item) => item.kind === 'tool').map((item) => [item.state, item.preview]), [['done', 'ls'], ['error', '']]);
  assert.equal(new Set(state.items.map((item) => item.key)).size, state.items.length);
});

test('reload in the middle of a run: further text joins the stored text, once', () => {
  let state = loaded([user(1, 'hi'), assistant(2, 'Hel')], { isWorking: true, events: [{ event: 'run.started', data: {} }] });
  state = play(state, ['message.delta', { delta: 'lo' }], ['run.completed', { output: 'Hello', queue_remaining: 0 }]);
  assert.deepEqual(shown(state), ['user:hi', 'assistant:Hello']);
});

test('reload while a tool runs: one running card, from the rows and the replayed events', () => {
  const events = [{ event: 'tool.started', data: { tool_call_id: 'c1', tool: 'terminal', preview: 'sleep' } }];
  for (const rows of [[user(1, 'hi')], [user(1, 'hi'), assistant(2, '', { tool_calls: [call('c1', 'terminal')] })]]) {
    const state = loaded(rows, { isWorking: true, events });
    assert.deepEqual(state.items.map((item) => [item.kind, item.state, item.preview]), [['user', undefined, undefined], ['tool', 'running', 'sleep']]);
    assert.equal(reduce(state, 'tool.completed', { tool_call_id: 'c1', output: 'x' }).items[1].state, 'done');
  }
});

test('a tool without a result in a finished turn is stopped, not running for ever', () => {
  const rows = [user(1, 'hi'), assistant(2, '', { tool_calls: [call('c1', 'terminal')] })];
  assert.equal(loaded(rows).items[1].state, 'stopped');
  assert.equal(loaded([...rows, user(3, 'next')], { isWorking: true }).items[1].state, 'stopped');
});

test('resumed replaces everything: queue, tokens, stopping, more rows', () => {
  const state = loaded([user(7, 'a')], { isWorking: true, isAborting: true, inputTokens: 1, outputTokens: 2, contextTokens: 9, hasMoreBefore: true, queueMessages: [{ id: 'q', content: 'later' }] });
  assert.deepEqual([state.stopping, state.hasMore, state.oldest, state.queue[0].text], [true, true, 7, 'later']);
  assert.deepEqual(state.usage, { input: 1, output: 2, context: 9 });
});

test('after a reconnect an own message is dropped exactly when the server has it', () => {
  const rows = [user(1, 'ok'), assistant(2, 'a')];
  const waiting = submit(loaded(rows), message('m', 'ok'));
  const again = (more) => reduce(waiting, 'resumed', { messages: rows, isWorking: true, ...more }).pending.length;
  assert.equal(again({}), 1, 'an older row with the same text is another message');
  assert.equal(again({ messages: [...rows, { ...user(3, 'ok'), queue_id: 'm' }] }), 0);
  assert.equal(again({ queueMessages: [{ id: 'm', content: 'ok' }] }), 0);
});

test('an own message has one key before and after it is stored', () => {
  const live = play(submit(loaded(), message('m')), ['run.started', {}]).items[0].key;
  assert.equal(loaded([{ ...user(1, 'm'), queue_id: 'm' }]).items[0].key, live);
});

test('a stored answer tells that it was stopped or failed', () => {
  assert.deepEqual(shown(loaded([assistant(1, 'half', { finish_reason: 'aborted' }), assistant(2, 'x', { finish_reason: 'error' }), assistant(3, 'y', { finish_reason: 'stop' })])), ['assistant:half', 'notice:Stopped', 'assistant:x', 'notice:The run failed at this point', 'assistant:y']);
});

test('resumed: a message whose run left nothing is marked, a running or answered one is not', () => {
  const rows = [user(1, 'lost'), user(2, 'answered'), assistant(3, 'yes'), user(4, 'last')];
  const note = 'notice:This message was not answered';
  assert.deepEqual(shown(loaded(rows)), ['user:lost', note, 'user:answered', 'assistant:yes', 'user:last', note]);
  assert.deepEqual(shown(loaded(rows, { isWorking: true })), ['user:lost', note, 'user:answered', 'assistant:yes', 'user:last']);
});

test('older rows go before the transcript, without doubles', () => {
  const state = prepend(loaded([user(5, 'five'), assistant(6, 'six')], { hasMoreBefore: true }), [user(3, 'three'), assistant(4, 'four'), user(5, 'five'), assistant(6, 'six')], false);
  assert.deepEqual(shown(state), ['user:three', 'assistant:four', 'user:five', 'assistant:six']);
  assert.deepEqual([state.oldest, state.hasMore], [3, false]);
});

test('hostile payloads change nothing and throw nothing', () => {
  const names = ['resumed', 'run.started', 'run.queued', 'message.delta', 'tool.started', 'tool.completed', 'run.failed', 'run.completed', 'abort.completed', 'run.peer_user_message', 'usage.updated'];
  for (const name of names) for (const payload of [{}, { delta: '' }, { message: null }]) reduce(loaded(), name, payload);
});
