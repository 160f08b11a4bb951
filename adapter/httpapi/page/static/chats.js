// The chats of this window: their states, and what is sent to the server for them. No DOM in here.

import { newMessageId } from './ids.js';
import { newSession, prepend, reduce, submit } from './session.js';

const RESUME_TIMEOUT_MS = 15_000;
const TERMINAL = new Set(['run.completed', 'run.failed', 'abort.completed']);
const LIST_CHANGING = new Set([...TERMINAL, 'run.started', 'run.peer_user_message']);

/**
 * Chats joins the events of the socket to the states. Handlers: changed(id) after a state changed,
 * listChanged() when the list of chats may look different, ended(id, event, payload) after a turn's end.
 */
export class Chats {
  constructor(emit, handlers) {
    this.emit = emit;
    this.handlers = handlers;
    this.states = new Map();
    this.current = null;
  }

  get state() {
    return this.states.get(this.current);
  }

  working(id) {
    return Boolean(this.states.get(id)?.working);
  }

  clear() {
    clearTimeout(this.resumeTimer);
    this.states.clear();
    this.current = null;
  }

  open(id, profile) {
    if (!this.states.has(id)) this.states.set(id, newSession(id, profile));
    this.current = id;
    this.resume(id);
    this.handlers.changed(id);
  }

  /** forget drops a deleted chat. */
  forget(id) {
    this.states.delete(id);
    if (this.current === id) this.current = null;
  }

  /** resume asks for the stored transcript, and asks again when no answer comes. */
  resume(id) {
    const state = this.states.get(id);
    this.emit('resume', { session_id: id, profile: state.profile });
    if (id !== this.current) return;
    clearTimeout(this.resumeTimer);
    this.resumeTimer = setTimeout(() => {
      if (this.current === id && !this.states.get(id)?.loaded) this.resume(id);
    }, RESUME_TIMEOUT_MS);
  }

  /** connected brings the states up to date: unless the connection was recovered, events may be missing. */
  connected(recovered) {
    for (const [id, state] of this.states) {
      const needed = id === this.current || state.pending.length > 0;
      if (!recovered && !needed) this.states.delete(id);
      else if (!recovered) this.resume(id);
      for (const message of state.pending) this.sendRun(state, message);
    }
  }

  send(text) {
    const message = { id: newMessageId(), text, timestamp: Math.floor(Date.now() / 1000) };
    this.update(this.current, (state) => submit(state, message));
    this.sendRun(this.state, message);
  }

  sendRun(state, { id, text }) {
    this.emit('run', { input: text, session_id: state.id, profile: state.profile, queue_id: id });
  }

  stop() {
    this.emit('abort', { session_id: this.current });
  }

  cancelQueued(queueId) {
    this.emit('cancel_queued_run', { session_id: this.current, queue_id: queueId });
  }

  addOlder(id, rows, hasMore) {
    this.update(id, (state) => prepend(state, rows, hasMore));
  }

  /** event applies one event of the server; events of chats this window has not opened only touch the list. */
  event(name, payload) {
    const id = payload?.session_id;
    if (LIST_CHANGING.has(name)) this.handlers.listChanged();
    if (!this.states.has(id)) return;
    this.update(id, (state) => reduce(state, name, payload));
    if (TERMINAL.has(name)) this.handlers.ended(id, name, payload);
  }

  update(id, change) {
    const before = this.states.get(id);
    if (!before) return;
    const after = change(before);
    if (after === before) return;
    this.states.set(id, after);
    this.handlers.changed(id);
  }
}
