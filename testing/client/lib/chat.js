// A chat-run client for the suite: the real socket.io-client with the options of the reference front-end
// (chat-run 1.3), and a record of everything that came.

import { io } from 'socket.io-client';

const PATIENCE_MS = 20_000;
const SHOWN = 30;

/** OPTIONS are those of the reference front-end; only its delays between retries are longer. */
export const OPTIONS = {
  transports: ['websocket', 'polling'],
  reconnection: true,
  reconnectionAttempts: Infinity,
  reconnectionDelay: 100,
  reconnectionDelayMax: 1_000,
  randomizationFactor: 0.5,
  timeout: 30_000,
  forceNew: true,
};

let serial = 0;

/** newId returns an id that no other test uses. */
export function newId(name) {
  serial += 1;
  return `${name}-${process.pid}-${serial}`;
}

/** Chat is one socket of /chat-run with the record of its events. */
export class Chat {
  constructor(url, token, { query = { profile: 'default' }, ...options } = {}) {
    this.socket = io(`${url}/chat-run`, { ...OPTIONS, auth: { token }, query, ...options });
    this.events = [];
    this.read = 0;
    this.waiting = new Set();
    this.socket.onAny((name, payload) => this.record(name, payload));
    for (const name of ['connect', 'connect_error', 'disconnect']) {
      this.socket.on(name, (detail) => this.record(name, detail instanceof Error ? { message: detail.message } : detail));
    }
  }

  record(name, payload) {
    this.events.push({ name, payload });
    for (const look of this.waiting) look();
  }

  /** next returns the first event from here on that fits, and goes on behind it. */
  next(name, fits = () => true) {
    return this.until((event) => event.name === name && fits(event.payload), name).then((events) => events.at(-1).payload);
  }

  /** until returns the events from here on up to the first that fits, and goes on behind it. */
  until(fits, what = 'an event') {
    return new Promise((resolve, reject) => {
      const from = this.read;
      let at = from;
      const look = () => {
        while (at < this.events.length) {
          at += 1;
          if (!fits(this.events[at - 1])) continue;
          clearTimeout(timer);
          this.waiting.delete(look);
          this.read = at;
          resolve(this.events.slice(from, at));
          return;
        }
      };
      const timer = setTimeout(() => {
        this.waiting.delete(look);
        reject(new Error(`no ${what} came; the last events since then:\n${describe(this.events.slice(from).slice(-SHOWN))}`));
      }, PATIENCE_MS);
      this.waiting.add(look);
      look();
    });
  }

  connected() {
    return this.next('connect');
  }

  emit(name, ...args) {
    this.socket.emit(name, ...args);
  }

  /** run sends a message as the front-end does and returns its queue id. */
  run(session, input, more = {}) {
    const queueId = newId('q');
    this.emit('run', { input, session_id: session, queue_id: queueId, source: 'cli', profile: 'default', model_groups: [], ...more });
    return queueId;
  }

  /** resume joins a session and returns the answer. */
  resume(session) {
    this.emit('resume', { session_id: session, profile: 'default' });
    return this.next('resumed', (payload) => payload.session_id === session);
  }

  /** marker returns all events before the answer to an event that is always answered, so that what did not come can be told. */
  async marker() {
    const session = newId('marker');
    this.emit('resume', { session_id: session });
    const events = await this.until(({ name, payload }) => name === 'resumed' && payload.session_id === session, 'marker');
    return events.slice(0, -1);
  }

  of(session, name) {
    return this.events.filter((event) => event.payload?.session_id === session && (!name || event.name === name)).map(({ payload }) => payload);
  }

  close() {
    this.socket.close();
  }
}

const TERMINAL = new Set(['run.completed', 'run.failed', 'abort.completed']);

/** terminals names the endings among events, in order. */
export function terminals(events) {
  return events.map(({ name }) => name).filter((name) => TERMINAL.has(name));
}

/** textOf joins the deltas of payloads or events. */
export function textOf(events) {
  return events.filter(({ name }) => name === 'message.delta').map(({ payload }) => payload.delta).join('');
}

/** rowsOf shortens the messages of a resumed payload to [role, content]. */
export function rowsOf(resumed) {
  return resumed.messages.map(({ role, content }) => [role, content]);
}

export function describe(events) {
  return events.map(({ name, payload }) => `  ${name} ${JSON.stringify(payload)?.slice(0, 300)}`).join('\n');
}
