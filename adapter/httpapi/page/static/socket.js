// A small Socket.IO 5 client for one namespace: WebSocket first, long-polling when a WebSocket cannot be
// opened, heartbeat, reconnection with back-off, and connection state recovery.

import { Engine, Packet, decodePacket, encodePacket } from './packet.js';
import { PollingTransport, WebSocketTransport } from './transport.js';

const OPEN_TIMEOUT_MS = 15_000;
const CONNECT_TIMEOUT_MS = 30_000;
const FIRST_DELAY_MS = 1_000;
const MAX_DELAY_MS = 30_000;

/**
 * ChatSocket calls, on the handlers given:
 *   onConnect(recovered)   the namespace accepted us; recovered means nothing was missed
 *   onEvent(name, payload) one event of the server
 *   onRefused(message)     the namespace refused us; there is no further try until connect()
 *   onState(state)         {phase: 'connecting'|'connected'|'waiting'|'closed', delay?: ms, reason?}
 */
export class ChatSocket {
  constructor(url, namespace, handlers, { transports = [WebSocketTransport, PollingTransport], options = {} } = {}) {
    this.url = url;
    this.namespace = namespace;
    this.handlers = handlers;
    this.transports = transports;
    this.options = options;
    this.timers = {};
    this.forgetRecovery();
  }

  /** connect opens the connection with the token; it replaces whatever is open. */
  connect(token) {
    this.close();
    this.token = token;
    this.wanted = true;
    this.attempts = 0;
    this.open(0);
  }

  /** close ends the connection and stops reconnecting. */
  close() {
    this.wanted = false;
    this.dropTransport('client disconnect');
    this.forgetRecovery();
    this.handlers.onState({ phase: 'closed' });
  }

  /** retryNow skips the back-off, for instance when the network came back. */
  retryNow() {
    if (this.wanted && !this.transport) this.open(0);
  }

  /** interrupt treats the connection as lost, for instance when the browser says it is offline. */
  interrupt(reason) {
    if (this.wanted && this.transport) this.lost(reason);
  }

  /** emit sends one event. It returns false, and sends nothing, while there is no connection. */
  emit(name, payload) {
    if (!this.connected) return false;
    this.sendPacket({ type: Packet.EVENT, data: [name, payload] });
    return true;
  }

  forgetRecovery() {
    this.pid = undefined;
    this.offset = undefined;
  }

  open(index) {
    this.clearTimers();
    this.handlers.onState({ phase: 'connecting' });
    this.opened = false;
    const Transport = this.transports[index];
    const transport = new Transport(this.url, {
      ...this.options,
      onPacket: (packet) => this.transport === transport && this.receive(packet),
      onClose: (reason) => {
        if (this.transport !== transport) return;
        const next = index + 1;
        if (this.opened || next >= this.transports.length) this.lost(reason);
        else this.open(next);
      },
    });
    this.transport = transport;
    this.setTimer('open', OPEN_TIMEOUT_MS, () => transport.close('timeout'));
  }

  receive(packet) {
    this.beat();
    switch (packet[0]) {
      case Engine.OPEN: return this.handshake(packet.slice(1));
      case Engine.PING: return this.transport.send(Engine.PONG + packet.slice(1));
      case Engine.CLOSE: return this.lost('transport close');
      case Engine.MESSAGE: return this.message(decodePacket(packet.slice(1)));
    }
  }

  handshake(text) {
    let data;
    try {
      data = JSON.parse(text);
    } catch {
      return this.lost('parse error');
    }
    this.opened = true;
    this.silence = data.pingInterval + data.pingTimeout;
    this.clearTimer('open');
    this.setTimer('connect', CONNECT_TIMEOUT_MS, () => this.lost('timeout'));
    this.beat();
    const recovery = this.pid ? { pid: this.pid, offset: this.offset } : {};
    this.sendPacket({ type: Packet.CONNECT, data: { ...recovery, token: this.token } });
  }

  message(packet) {
    if (!packet || packet.namespace !== this.namespace) return;
    switch (packet.type) {
      case Packet.CONNECT: return this.accepted(packet.data || {});
      case Packet.EVENT: return this.event(packet.data);
      case Packet.CONNECT_ERROR: return this.refused(packet.data);
      case Packet.DISCONNECT:
        this.forgetRecovery();
        return this.lost('server disconnect');
    }
  }

  accepted({ pid }) {
    const recovered = pid !== undefined && pid === this.pid;
    if (!recovered) this.offset = undefined;
    this.pid = pid;
    this.attempts = 0;
    this.connected = true;
    this.clearTimer('connect');
    this.handlers.onState({ phase: 'connected' });
    this.handlers.onConnect(recovered);
  }

  event([name, payload, ...rest]) {
    const offset = rest.at(-1);
    if (this.pid && typeof offset === 'string') this.offset = offset;
    this.handlers.onEvent(name, payload);
  }

  refused(data) {
    this.close();
    this.handlers.onRefused((data && data.message) || 'Connection refused');
  }

  lost(reason) {
    this.dropTransport(reason);
    if (!this.wanted) return;
    const ceiling = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** this.attempts);
    this.attempts += 1;
    // Spread the clients of a restarted server over the second half of the interval.
    const delay = Math.round(ceiling * (0.5 + Math.random() / 2));
    this.setTimer('retry', delay, () => this.open(0));
    this.handlers.onState({ phase: 'waiting', delay, reason });
  }

  dropTransport(reason) {
    this.clearTimers();
    this.connected = false;
    const transport = this.transport;
    this.transport = undefined;
    if (transport) transport.close(reason);
  }

  sendPacket(packet) {
    this.transport.send(Engine.MESSAGE + encodePacket({ namespace: this.namespace, ...packet }));
  }

  beat() {
    if (this.silence) this.setTimer('silence', this.silence, () => this.lost('ping timeout'));
  }

  setTimer(name, ms, action) {
    clearTimeout(this.timers[name]);
    this.timers[name] = setTimeout(action, ms);
  }

  clearTimer(name) {
    clearTimeout(this.timers[name]);
    delete this.timers[name];
  }

  clearTimers() {
    for (const name of Object.keys(this.timers)) this.clearTimer(name);
  }
}
