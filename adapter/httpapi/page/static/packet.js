// Engine.IO 4 and Socket.IO 5 packets as text. Binary packets are not used by /chat-run.

/** Separates the packets of one long-polling body. */
export const SEPARATOR = '\x1e';

/** Engine.IO packet types, the first character of every message. */
export const Engine = { OPEN: '0', CLOSE: '1', PING: '2', PONG: '3', MESSAGE: '4', UPGRADE: '5', NOOP: '6' };

/** Socket.IO packet types, the first character inside an Engine.IO message. */
export const Packet = { CONNECT: 0, DISCONNECT: 1, EVENT: 2, ACK: 3, CONNECT_ERROR: 4 };

/** encodePacket writes one Socket.IO packet: type, namespace, optional JSON data. */
export function encodePacket({ type, namespace = '/', data }) {
  const prefix = namespace === '/' ? '' : `${namespace},`;
  return `${type}${prefix}${data === undefined ? '' : JSON.stringify(data)}`;
}

/** decodePacket reads one Socket.IO packet and returns null for anything it does not understand. */
export function decodePacket(text) {
  const head = /^([0-4])(?:(\/[^,]*),?)?(\d+)?/.exec(text);
  if (!head) return null;
  const packet = { type: Number(head[1]), namespace: head[2] || '/' };
  if (head[3] !== undefined) packet.id = Number(head[3]);
  const body = text.slice(head[0].length);
  if (body === '') return packet.type === Packet.EVENT ? null : packet;
  try {
    packet.data = JSON.parse(body);
  } catch {
    return null;
  }
  if (packet.type === Packet.EVENT && !(Array.isArray(packet.data) && typeof packet.data[0] === 'string')) return null;
  return packet;
}
