// The two Engine.IO transports. Each calls onPacket(text) per packet and onClose(reason) exactly once.

import { Engine, SEPARATOR } from './packet.js';

/** WebSocketTransport carries one packet per text frame. */
export class WebSocketTransport {
  constructor(url, { onPacket, onClose, WebSocket = globalThis.WebSocket }) {
    const address = new URL(url);
    address.protocol = address.protocol === 'https:' ? 'wss:' : 'ws:';
    address.searchParams.set('EIO', '4');
    address.searchParams.set('transport', 'websocket');
    this.onClose = onClose;
    this.ws = new WebSocket(address.href);
    this.ws.onmessage = ({ data }) => {
      if (!this.closed && typeof data === 'string') onPacket(data);
    };
    this.ws.onclose = () => this.finish('transport close');
    this.ws.onerror = () => this.finish('transport error');
  }

  send(packet) {
    if (this.ws.readyState === 1) this.ws.send(packet);
  }

  close(reason = 'closed') {
    this.finish(reason);
    this.ws.close();
  }

  finish(reason) {
    if (this.closed) return;
    this.closed = true;
    this.onClose(reason);
  }
}

/** PollingTransport keeps one GET open and posts what there is to send, one POST at a time. */
export class PollingTransport {
  constructor(url, { onPacket, onClose, fetch = globalThis.fetch.bind(globalThis) }) {
    this.address = new URL(url);
    this.address.searchParams.set('EIO', '4');
    this.address.searchParams.set('transport', 'polling');
    this.onPacket = onPacket;
    this.onClose = onClose;
    this.fetch = fetch;
    this.outgoing = [];
    this.abort = new AbortController();
    this.poll();
  }

  async poll() {
    while (!this.closed) {
      const body = await this.request({ method: 'GET' });
      if (body === null) return;
      for (const packet of body.split(SEPARATOR)) this.receive(packet);
    }
  }

  receive(packet) {
    if (this.closed) return;
    if (packet[0] === Engine.OPEN) {
      const sid = /"sid":"([^"]+)"/.exec(packet)?.[1];
      if (!sid) return this.finish('parse error');
      this.address.searchParams.set('sid', sid);
    }
    this.onPacket(packet);
  }

  send(packet) {
    if (this.closed) return;
    this.outgoing.push(packet);
    if (!this.posting) this.flush();
  }

  async flush() {
    this.posting = true;
    while (this.outgoing.length && !this.closed) {
      const body = this.outgoing.splice(0).join(SEPARATOR);
      const headers = { 'Content-Type': 'text/plain;charset=UTF-8' };
      if ((await this.request({ method: 'POST', body, headers })) === null) break;
    }
    this.posting = false;
  }

  async request(options) {
    try {
      const response = await this.fetch(this.address.href, { ...options, cache: 'no-store', signal: this.abort.signal });
      if (response.ok) return await response.text();
      this.finish('transport error');
    } catch {
      this.finish('transport error');
    }
    return null;
  }

  close(reason = 'closed') {
    if (this.address.searchParams.has('sid') && !this.closed) this.request({ method: 'POST', body: Engine.CLOSE, keepalive: true });
    this.finish(reason);
  }

  finish(reason) {
    if (this.closed) return;
    this.closed = true;
    this.onClose(reason);
    // The closing POST needs the signal a moment longer than the held GET does.
    setTimeout(() => this.abort.abort(), 1000);
  }
}
