// Two nodes on one Redis behind a load balancer that sends every request to the next one.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { startStack } from '../e2e/stack/stack.mjs';
import { openBalancer } from './lib/balancer.js';
import { Chat, newId, rowsOf, terminals, textOf } from './lib/chat.js';
import { startRedis } from './lib/redis.js';

const ALICE = 'secret-of-alice-0123456789';
const USERS = { alice: { token: ALICE } };

let redis;
let nodes = [];

before(async () => {
  redis = await startRedis();
  const start = (name) => startStack({ users: USERS, options: [`redis ${redis.url}`, `node ${name}`] });
  nodes = [await start('n1')]; // one after the other: the first one builds
  nodes.push(await start('n2'));
});

after(async () => {
  await Promise.all(nodes.map((node) => node.stop()));
  await redis?.stop();
});

async function open(t, options) {
  const balancer = await openBalancer(t, nodes.map(({ url }) => url));
  const chat = new Chat(balancer.url, ALICE, options);
  t.after(() => chat.close());
  return { balancer, chat };
}

const transports = {
  'websocket first, as the reference front-end connects': { transports: ['websocket', 'polling'] },
  'polling, then the upgrade, as the client does by default': { transports: ['polling', 'websocket'] },
  'polling only': { transports: ['polling'], upgrade: false },
};

for (const [name, options] of Object.entries(transports)) {
  test(`without sticky sessions: ${name} (SIO-01)`, async (t) => {
    const { balancer, chat } = await open(t, options);
    const { engine } = chat.socket.io;
    const upgraded = new Promise((resolve, reject) => {
      engine.once('upgrade', resolve);
      engine.once('close', () => reject(new Error('closed before the upgrade')));
    });
    upgraded.catch(() => {}); // of no interest to the others
    await chat.connected();
    if (name.includes('the upgrade')) await upgraded;
    const session = newId('s');
    for (const [i, text] of ['héllo 🌍', 'and once more'].entries()) {
      chat.run(session, text);
      const events = await chat.until((event) => event.name === 'run.completed', 'run.completed');
      assert.equal(textOf(events), `echo: ${text}`);
      assert.deepEqual(terminals(events), ['run.completed']);
      assert.equal(rowsOf(await chat.resume(session)).length, 2 * (i + 1));
    }
    assert.equal(engine.transport.name, options.upgrade === false ? 'polling' : 'websocket');
    assert.deepEqual(chat.events.filter((event) => event.name === 'disconnect' || event.name === 'connect_error'), []);
    if (options.transports[0] === 'polling') assert.ok(Math.min(...Object.values(balancer.served)) > 1, 'both nodes were asked');
  });
}

test('the node that holds a polling connection is killed in mid-run: the client goes on with the other (RES-02)', async (t) => {
  const { balancer, chat } = await open(t, transports['polling only']);
  await chat.connected();
  // Another client starts the run on the node that stays, so that only the connection moves.
  const [name] = chat.socket.io.engine.id.split('-');
  const [gone, stays] = name === 'n1' ? nodes : [...nodes].reverse();
  const witness = new Chat(stays.url, ALICE);
  t.after(() => witness.close());
  await witness.connected();
  const session = newId('s');
  await chat.resume(session);
  witness.run(session, '[[hold]]');
  await stays.gateway.held(1);
  await chat.next('message.delta');
  balancer.remove(gone.url);
  const back = gone.crash();
  await chat.next('disconnect');
  await chat.connected();
  assert.equal(chat.socket.recovered, true);
  await stays.gateway.release();
  await witness.next('run.completed');
  await chat.next('run.completed');
  assert.equal(textOf(chat.events), textOf(witness.events), 'nothing lost, nothing doubled');
  assert.deepEqual(terminals(chat.events), ['run.completed']);
  await back;
});
