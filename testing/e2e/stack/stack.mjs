// Starts the command in this folder for a suite in JavaScript.

import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const REPOSITORY = fileURLToPath(new URL('../../../', import.meta.url));
const PATIENCE_MS = 60_000;

/**
 * startStack runs a scripted gateway with an edge in front of it and resolves when both serve.
 * users is {name: {token, profiles}}, options are further lines of the hermes block.
 * HERMES_EDGE_STACK names a built command; without it `go run` builds one.
 */
export async function startStack({ users, profiles = ['default'], options = [] }) {
  const args = ['-profiles', profiles.join()];
  for (const [name, user] of Object.entries(users)) args.push('-user', `${name}=${user.token}:${(user.profiles || ['default']).join()}`);
  for (const line of options) args.push('-option', line);
  const built = process.env.HERMES_EDGE_STACK;
  const child = spawn(built || 'go', built ? args : ['run', './testing/e2e/stack', ...args], {
    cwd: REPOSITORY,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = new Promise((resolve) => child.on('close', resolve));
  const failed = Promise.race([
    new Promise((_, reject) => child.on('error', reject)),
    ended.then((code) => Promise.reject(new Error(`the stack ended with ${code}`))),
  ]);
  // Of no interest any more once the stack serves.
  failed.catch(() => {});
  const lines = createInterface({ input: child.stdout });
  const serving = () => Promise.race([new Promise((resolve) => lines.once('line', resolve)), failed]);
  const { edge, gateway } = JSON.parse(await serving());
  return {
    url: edge,
    gateway: new GatewayControl(gateway),
    /** crash kills the edge and resolves when it serves again, at the same place with the same data. */
    async crash() {
      const again = serving();
      child.stdin.write('crash\n');
      await again;
    },
    /** stop ends everything; it throws if the edge had a data race, a panic or an unclean end. */
    async stop() {
      child.stdin.end();
      const code = await ended;
      if (code !== 0) throw new Error(`the stack ended with ${code}; its log is above`);
    },
  };
}

/** GatewayControl talks to the control routes of the scripted gateway. */
class GatewayControl {
  constructor(url) {
    this.url = url;
  }

  async call(method, path) {
    const response = await fetch(`${this.url}/__control/${path}`, { method, signal: AbortSignal.timeout(PATIENCE_MS) });
    if (!response.ok) throw new Error(`scripted gateway: ${method} ${path}: ${response.status} ${await response.text()}`);
    return response.status === 204 ? undefined : response.json();
  }

  /** held resolves as soon as n turns wait for a release. */
  held(n) {
    return this.call('GET', `held?value=${n}`);
  }

  /** release lets every held turn go on; it waits until there are n of them. */
  async release(n = 1) {
    await this.held(n);
    await this.call('POST', 'release');
  }

  /** turns returns the bodies of the turns that came so far, oldest first. */
  async turns() {
    const requests = await this.call('GET', 'requests');
    return requests.filter(({ method, path }) => method === 'POST' && path === '/v1/responses').map(({ body }) => JSON.parse(body));
  }

  forget() {
    return this.call('DELETE', 'requests');
  }
}
