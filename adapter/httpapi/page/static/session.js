// The state of one chat: a pure reducer from protocol events to the view model.
//
// state.items    what the transcript shows, oldest first; kinds: user, assistant, reasoning, tool, error, notice
// state.pending  own messages that the server has not confirmed yet; they are sent again after a reconnect,
//                with the same id, which the server recognises
// state.queue    messages that wait for the current run
// An item is replaced, never changed, so a view can compare by identity.

import { itemsOf, lastUserIndex, markUnanswered, textOf, toolItem } from './rows.js';

/** newSession is the state of a chat nothing is known about yet. */
export function newSession(id, profile = 'default') {
  return {
    id, profile, loaded: false, items: [], pending: [], queue: [], usage: null,
    working: false, stopping: false, hasMore: false, turnOpen: false, spoke: false, serial: 0,
  };
}

/** reduce returns the state after one event; events it does not know leave the state as it is. */
export function reduce(state, name, payload) {
  const handler = handlers[name];
  return handler && payload ? handler(state, payload) : state;
}

/** submit adds an own message that waits for its confirmation. */
export function submit(state, message) {
  return { ...state, pending: [...state.pending, message] };
}

/** prepend adds older rows before the transcript. */
export function prepend(state, rows, hasMore) {
  const known = new Set(state.items.map((item) => item.key));
  const older = itemsOf(rows).filter((item) => !known.has(item.key));
  return { ...state, items: [...older, ...state.items], oldest: rows[0]?.id ?? state.oldest, hasMore };
}

const handlers = {
  resumed,
  'run.started': (state) => {
    const opened = state.turnOpen ? state : confirmFirst(state);
    return { ...settle(opened), working: true, stopping: false, turnOpen: true, spoke: false };
  },
  'run.peer_user_message': (state, { message }) =>
    message ? openTurn(state, { id: message.id, text: textOf(message.content), timestamp: message.timestamp }) : state,
  'run.queued': queued,
  'message.delta': (state, { delta }) => append(state, 'assistant', delta),
  'reasoning.delta': (state, { text, delta }) => append(state, 'reasoning', text ?? delta),
  'thinking.delta': (state, { text, delta }) => append(state, 'reasoning', text ?? delta),
  'reasoning.available': (state) => (state.items.at(-1)?.kind === 'reasoning' ? settle(state) : state),
  'tool.started': toolStarted,
  'tool.completed': toolCompleted,
  'usage.updated': (state, payload) => withUsage(state, payload),
  'run.completed': completed,
  'run.failed': failed,
  'abort.started': (state) => ({ ...state, stopping: true }),
  'abort.completed': aborted,
};

/* Transcript as stored, on opening a chat and after a reconnect. */

function resumed(state, payload) {
  const rows = payload.messages || [];
  const working = Boolean(payload.isWorking);
  const queue = queueOf(payload.queueMessages);
  let next = {
    ...state,
    loaded: true,
    items: markUnanswered(itemsOf(rows, working), working),
    pending: unconfirmed(state, rows, queue),
    oldest: rows[0]?.id,
    hasMore: Boolean(payload.hasMoreBefore),
    working,
    stopping: Boolean(payload.isAborting),
    queue,
    turnOpen: working,
    spoke: false,
  };
  next = withUsage(next, payload);
  if (!working) return next;
  next.spoke = next.items.slice(lastUserIndex(next.items) + 1).some((item) => item.kind === 'assistant');
  for (const { event, data } of payload.events || []) {
    if (event === 'tool.started' || event === 'tool.completed') next = reduce(next, event, data);
  }
  return reopenLast(next);
}

/** reopenLast lets further text of a running answer join what is stored of it, instead of a second bubble. */
function reopenLast(state) {
  const last = state.items.at(-1);
  if (last?.kind !== 'assistant' && last?.kind !== 'reasoning') return state;
  return { ...state, items: [...state.items.slice(0, -1), { ...last, streaming: true }] };
}

/** unconfirmed drops the own messages that the stored rows, or the queue, already contain. */
function unconfirmed(state, rows, queue) {
  const known = new Set([...queue.map((item) => item.id), ...rows.map((row) => row.queue_id)]);
  return state.pending.filter((message) => !known.has(message.id));
}

/* User messages: confirmed at once, or after a stay in the queue. */

function openTurn(state, { id, text, timestamp }) {
  const key = `user-${id}`;
  const pending = state.pending.filter((own) => own.id !== id);
  if (state.items.some((item) => item.key === key)) return { ...state, pending };
  const before = settle(state);
  const user = { key, kind: 'user', text, timestamp };
  return { ...before, pending, items: [...before.items, user], working: true, turnOpen: true };
}

function confirmFirst(state) {
  return state.pending.length ? openTurn(state, state.pending[0]) : state;
}

function queued(state, payload) {
  const next = payload.dequeued_queue_id === undefined ? state : dequeued(state, payload.dequeued_queue_id);
  if (!payload.queued_messages) return next;
  const queue = queueOf(payload.queued_messages);
  const ids = new Set(queue.map((item) => item.id));
  return { ...next, queue, pending: next.pending.filter((message) => !ids.has(message.id)) };
}

function dequeued(state, id) {
  const message = [...state.queue, ...state.pending].find((waiting) => waiting.id === id);
  const next = message ? openTurn(state, message) : state;
  return { ...next, queue: next.queue.filter((waiting) => waiting.id !== id) };
}

function queueOf(messages) {
  return (messages || []).map(({ id, content, timestamp }) => ({ id, text: textOf(content), timestamp }));
}

/* Output of the run. */

function append(state, kind, text) {
  if (!text) return state;
  const spoke = state.spoke || kind === 'assistant';
  const last = state.items.at(-1);
  if (last?.streaming && last.kind === kind) {
    return { ...state, spoke, items: [...state.items.slice(0, -1), { ...last, text: last.text + text }] };
  }
  const next = settle(state);
  const item = { key: `live-${next.serial}`, kind, text, streaming: true };
  return { ...next, spoke, serial: next.serial + 1, items: [...next.items, item] };
}

function toolStarted(state, payload) {
  const name = payload.tool || payload.name || '';
  const id = payload.tool_call_id || `unnamed-${state.serial}`;
  const args = typeof payload.arguments === 'string' ? payload.arguments : '';
  const at = toolIndex(state, { tool_call_id: id });
  if (at >= 0) {
    const item = state.items[at];
    return replace(state, at, { ...item, name: name || item.name, arguments: args || item.arguments, preview: payload.preview || item.preview });
  }
  const next = settle(state);
  return addTool(next, toolItem(id, name, args, payload.preview));
}

function toolCompleted(state, payload) {
  const at = toolIndex(state, payload);
  const result = { state: payload.error === true ? 'error' : 'done', duration: payload.duration };
  if (typeof payload.output === 'string') result.output = payload.output;
  if (at >= 0) return replace(state, at, { ...state.items[at], ...result });
  const item = toolItem(payload.tool_call_id || `unnamed-${state.serial}`, payload.tool || payload.name || '', '');
  return addTool(settle(state), { ...item, ...result });
}

function addTool(state, item) {
  return { ...state, serial: state.serial + 1, items: [...state.items, { ...item, key: `live-${state.serial}` }] };
}

/** toolIndex finds a card of the current turn, -1 when there is none: models use the same call id again and again. */
function toolIndex(state, { tool_call_id: id, tool, name }) {
  const wanted = tool || name;
  const matches = (item) =>
    item.kind === 'tool' && (id ? item.id === id : item.state === 'running' && (!wanted || item.name === wanted));
  const at = state.items.findLastIndex(matches);
  return at > lastUserIndex(state.items) ? at : -1;
}

/* Endings. */

function completed(state, payload) {
  let next = state;
  const produced = state.spoke || state.items.slice(lastUserIndex(state.items) + 1).some((item) => item.kind === 'tool');
  if (!state.spoke && payload.output?.trim()) next = append(next, 'assistant', payload.output);
  else if (!produced) next = notice(next, 'error', 'The run ended without any output.');
  return ended(withUsage(next, payload), 'done', payload.queue_remaining);
}

function failed(state, payload) {
  const text = typeof payload.error === 'string' && payload.error ? payload.error : payload.error?.message || 'The run failed.';
  const refused = state.pending.find((message) => message.id === payload.queue_id);
  if (refused) return refuse(state, refused, text);
  const opened = state.turnOpen ? state : confirmFirst(state);
  return ended(notice(withUsage(withoutEcho(opened, text), payload), 'error', text), 'error', payload.queue_remaining);
}

/** withoutEcho drops an answer that is nothing but the error: some gateways stream an error as if it were text. */
function withoutEcho(state, error) {
  const last = state.items.at(-1);
  const echo = last?.streaming && last.kind === 'assistant' && error.includes(last.text.trim());
  return echo ? { ...state, items: state.items.slice(0, -1) } : state;
}

/** refuse takes a message back that the server did not accept; a run that goes on is not touched. */
function refuse(state, message, text) {
  const pending = state.pending.filter((own) => own !== message);
  const error = { key: `error-${state.serial}`, kind: 'error', text, unsent: message.text };
  return { ...state, pending, serial: state.serial + 1, items: [...state.items, error] };
}

function aborted(state, payload) {
  const next = ended(state, 'stopped', payload.queue_length);
  return payload.ignored ? next : notice(next, 'notice', payload.synced === false ? 'Stopped. The agent may still finish its last step.' : 'Stopped');
}

/** ended closes the turn; a positive count of waiting messages means that the next one starts by itself. */
function ended(state, toolState, waiting) {
  const next = settle(state);
  const items = next.items.map((item) => (item.state === 'running' ? { ...item, state: toolState } : item));
  return { ...next, items, working: waiting > 0, stopping: false, turnOpen: false, spoke: false };
}

function notice(state, kind, text) {
  return { ...state, serial: state.serial + 1, items: [...settle(state).items, { key: `${kind}-${state.serial}`, kind, text }] };
}

/** settle ends the streaming of the last bubble. */
function settle(state) {
  const last = state.items.at(-1);
  return last?.streaming ? replace(state, state.items.length - 1, { ...last, streaming: false }) : state;
}

function replace(state, index, item) {
  return { ...state, items: state.items.map((old, i) => (i === index ? item : old)) };
}

function withUsage(state, { inputTokens, outputTokens, contextTokens }) {
  if (inputTokens === undefined && outputTokens === undefined && contextTokens === undefined) return state;
  const old = state.usage || {};
  return {
    ...state,
    usage: {
      input: inputTokens ?? old.input ?? 0,
      output: outputTokens ?? old.output ?? 0,
      context: contextTokens ?? old.context,
    },
  };
}
