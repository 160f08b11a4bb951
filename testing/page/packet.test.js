import assert from 'node:assert/strict';
import test from 'node:test';

import { Packet, decodePacket, encodePacket } from '../../adapter/httpapi/page/static/packet.js';

test('packets are written as the protocol wants them', () => {
  const namespace = '/chat-run';
  assert.equal(encodePacket({ type: Packet.CONNECT, namespace, data: { token: 't' } }), '0/chat-run,{"token":"t"}');
  assert.equal(encodePacket({ type: Packet.EVENT, namespace, data: ['abort', { session_id: 's1' }] }), '2/chat-run,["abort",{"session_id":"s1"}]');
  assert.equal(encodePacket({ type: Packet.EVENT, data: ['x'] }), '2["x"]');
  assert.equal(encodePacket({ type: Packet.DISCONNECT, namespace }), '1/chat-run,');
});

test('packets are read', () => {
  const cases = {
    '0/chat-run,{"sid":"a","pid":"b"}': { type: 0, namespace: '/chat-run', data: { sid: 'a', pid: 'b' } },
    '2/chat-run,["resumed",{"a":1},"off"]': { type: 2, namespace: '/chat-run', data: ['resumed', { a: 1 }, 'off'] },
    '2["x"]': { type: 2, namespace: '/', data: ['x'] },
    '2/chat-run,17["x"]': { type: 2, namespace: '/chat-run', id: 17, data: ['x'] },
    '4/chat-run,{"message":"Authentication failed"}': { type: 4, namespace: '/chat-run', data: { message: 'Authentication failed' } },
    '1/chat-run,': { type: 1, namespace: '/chat-run' },
    '1/chat-run': { type: 1, namespace: '/chat-run' },
    '0': { type: 0, namespace: '/' },
  };
  for (const [text, packet] of Object.entries(cases)) assert.deepEqual(decodePacket(text), packet, text);
});

test('what is no packet is null, never an exception', () => {
  for (const text of ['', '9', '5-["x"]', '2', '2/chat-run,', '2{"a":1}', '2[1]', '2["x"', '2/chat-run,[', 'hello']) {
    assert.equal(decodePacket(text), null, text);
  }
});

test('text of any script survives both ways', () => {
  const data = ['run', { input: 'a\u2028b "quoted" \u{1F600} 你好\n\x1e' }];
  assert.deepEqual(decodePacket(encodePacket({ type: Packet.EVENT, namespace: '/chat-run', data })).data, data);
});
