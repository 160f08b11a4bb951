// A Redis of the test's own.

import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

const PATIENCE_MS = 20_000;

/** startRedis resolves to {url, stop} when it answers. redis-server must be installed. */
export async function startRedis() {
  const port = await freePort();
  const folder = await mkdtemp(join(tmpdir(), 'hermes-edge-redis-'));
  const child = spawn('redis-server', ['--port', port, '--bind', '127.0.0.1', '--dir', folder, '--save', '', '--appendonly', 'no'], { stdio: 'ignore' });
  const ended = new Promise((resolve) => child.on('close', resolve));
  const failed = new Promise((_, reject) => child.on('error', (error) => reject(new Error(`redis-server: ${error.message}; install Redis 7 or newer`))));
  await Promise.race([answers(port), failed, ended.then(() => Promise.reject(new Error('redis-server ended')))]);
  return {
    url: `redis://127.0.0.1:${port}`,
    async stop() {
      child.kill();
      await ended;
      await rm(folder, { recursive: true });
    },
  };
}

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function answers(port) {
  const deadline = Date.now() + PATIENCE_MS;
  const ask = () => new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write('PING\r\n'));
    socket.once('data', (data) => { socket.destroy(); resolve(String(data).startsWith('+PONG')); });
    socket.once('error', () => resolve(false));
  });
  while (!(await ask())) {
    if (Date.now() > deadline) throw new Error('redis-server does not answer');
    await pause(20);
  }
}
