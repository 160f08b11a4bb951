import assert from 'node:assert/strict';
import test, { mock } from 'node:test';

import { Api, ApiError } from '../../adapter/httpapi/page/static/api.js';
import { Chats } from '../../adapter/httpapi/page/static/chats.js';
import { newSessionId } from '../../adapter/httpapi/page/static/ids.js';

function harness() {
  const sent = [];
  const seen = { listChanged: 0, ended: [] };
  const chats = new Chats((name, payload) => sent.push([name, payload]), {
    changed: () => {},
    listChanged: () => (seen.listChanged += 1),
    ended: (id, name) => seen.ended.push([id, name]),
  });
  const runs = () => sent.filter(([name]) => name === 'run').map(([, payload]) => payload);
  return { chats, sent, seen, runs };
}

test.beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }));
test.afterEach(() => mock.timers.reset());

test('opening resumes, and asks again while no answer comes', () => {
  const { chats, sent } = harness();
  chats.open('s1', 'work');
  assert.deepEqual(sent, [['resume', { session_id: 's1', profile: 'work' }]]);
  mock.timers.tick(15_000);
  assert.equal(sent.length, 2);
  chats.event('resumed', { session_id: 's1', messages: [] });
  mock.timers.tick(60_000);
  assert.equal(sent.length, 2);
});

test('what was not confirmed is sent again after a reconnect, with the same id', () => {
  const { chats, sent, runs } = harness();
  chats.open('s1', 'default');
  chats.event('resumed', { session_id: 's1', messages: [] });
  chats.send('hello');
  assert.equal(runs()[0].input, 'hello');
  sent.length = 0;
  chats.connected(false);
  assert.deepEqual(sent.map(([name]) => name), ['resume', 'run']);
  assert.equal(runs()[0].queue_id, chats.state.pending[0].id);
  chats.event('run.started', { session_id: 's1' });
  sent.length = 0;
  chats.connected(true);
  assert.deepEqual(sent, []);
});

test('a chat in the background keeps its unconfirmed message, other states are dropped', () => {
  const { chats, sent } = harness();
  chats.open('s1', 'default');
  chats.send('lost');
  chats.open('s2', 'default');
  chats.open('s3', 'default');
  sent.length = 0;
  chats.connected(false);
  assert.deepEqual([...chats.states.keys()], ['s1', 's3']);
  assert.deepEqual(sent.map(([name, payload]) => [name, payload.session_id]), [['resume', 's1'], ['run', 's1'], ['resume', 's3']]);
});

test('events of unknown chats only touch the list; a turn of an open one is reported', () => {
  const { chats, seen } = harness();
  chats.open('s1', 'default');
  chats.event('run.completed', { session_id: 'elsewhere', output: 'x' });
  assert.deepEqual([seen.listChanged, seen.ended, chats.states.size], [1, [], 1]);
  chats.event('run.completed', { session_id: 's1', output: 'x' });
  assert.deepEqual(seen.ended, [['s1', 'run.completed']]);
  chats.event('run.completed', undefined);
});

test('stop and cancel name the open chat', () => {
  const { chats, sent } = harness();
  chats.open('s1', 'default');
  chats.stop();
  chats.cancelQueued('q1');
  assert.deepEqual(sent.slice(1), [['abort', { session_id: 's1' }], ['cancel_queued_run', { session_id: 's1', queue_id: 'q1' }]]);
});

test('session ids have the form YYYYMMDD_HHMMSS_xxxxxx', () => {
  assert.equal(newSessionId(new Date(2026, 0, 5, 7, 8, 9), 'abcdef'), '20260105_070809_abcdef');
  assert.match(newSessionId(), /^\d{8}_\d{6}_[0-9a-f]{6}$/);
});

test('the API sends the token, relative to the page, and turns refusals into errors with their code', async () => {
  const calls = [];
  const answers = [new Response('{"sessions":[],"next":null}'), new Response(null, { status: 204 }), new Response('{"error":"Not yours","code":"not_found"}', { status: 404 }), new Response('<html>', { status: 502 })];
  const api = new Api('https://edge.test/app/chat-run/', () => 'tok', async (url, options) => {
    calls.push([options.method, String(url), options.headers.Authorization, options.body]);
    return answers.shift();
  });
  await api.sessions({ q: 'a b', before: null });
  assert.equal(await api.remove('a:b'), null);
  await assert.rejects(api.rename('x', 'New'), (error) => error instanceof ApiError && error.status === 404 && error.code === 'not_found' && error.message === 'Not yours');
  await assert.rejects(api.me(), /answered 502/);
  assert.deepEqual(calls, [
    ['GET', 'https://edge.test/app/chat-run/sessions?q=a+b', 'Bearer tok', undefined],
    ['DELETE', 'https://edge.test/app/chat-run/sessions/a%3Ab', 'Bearer tok', undefined],
    ['PATCH', 'https://edge.test/app/chat-run/sessions/x', 'Bearer tok', '{"title":"New"}'],
    ['GET', 'https://edge.test/app/chat-run/me', 'Bearer tok', undefined],
  ]);
});
