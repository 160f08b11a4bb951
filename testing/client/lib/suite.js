// One stack for a test file, and clients that are closed with their test.

import { after, afterEach, before } from 'node:test';

import { startStack } from '../../e2e/stack/stack.mjs';
import { Chat } from './chat.js';

export const ALICE = 'secret-of-alice-0123456789';
export const BOB = 'secret-of-bob-0123456789';

const USERS = { alice: { token: ALICE, profiles: ['default'] }, bob: { token: BOB, profiles: ['default', 'work'] } };

/** suite starts a stack before the tests of this file and returns how they reach it. */
export function suite(options = []) {
  const use = {
    stack: undefined,
    /** open returns an admitted client that lives as long as the test t. */
    async open(t, token = ALICE, more) {
      const chat = use.dial(t, token, more);
      await chat.connected();
      return chat;
    },
    /** dial returns a client that is connecting, to another url than the edge's own if given. */
    dial(t, token = ALICE, { url = use.stack.url, ...more } = {}) {
      const chat = new Chat(url, token, more);
      t.after(() => chat.close());
      return chat;
    },
  };
  before(async () => {
    use.stack = await startStack({ users: USERS, profiles: ['default', 'work'], options });
  });
  // What a failed test left waiting must not disturb the next one.
  afterEach(() => use.stack.gateway.call('POST', 'release'));
  after(() => use.stack?.stop());
  return use;
}
