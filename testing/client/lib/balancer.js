// A load balancer without stickiness: every request, upgrades included, goes to the next server.

import { Agent, createServer, request } from 'node:http';

/** openBalancer returns its url, the servers' shares of requests, and remove() to take a server out. */
export async function openBalancer(t, urls) {
  const servers = [...urls];
  const served = Object.fromEntries(urls.map((url) => [url, 0]));
  const agent = new Agent({ keepAlive: true });
  const sockets = new Set();
  let turn = 0;
  const forward = (incoming) => {
    const url = servers[turn % servers.length];
    turn += 1;
    served[url] += 1;
    const { hostname, port } = new URL(url);
    const upgrade = Boolean(incoming.headers.upgrade);
    return request({ hostname, port, method: incoming.method, path: incoming.url, headers: incoming.headers, agent: upgrade ? false : agent });
  };
  const server = createServer((incoming, answer) => {
    const out = forward(incoming);
    out.on('response', (response) => {
      answer.writeHead(response.statusCode, response.headers);
      response.on('error', () => answer.destroy());
      response.pipe(answer);
    });
    // A server that is gone looks like a broken connection, not like an answer.
    out.on('error', () => answer.destroy());
    answer.on('close', () => out.destroy());
    incoming.pipe(out);
  });
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  server.on('upgrade', (incoming, near, head) => {
    const out = forward(incoming);
    const end = () => near.destroy();
    near.on('error', end);
    out.on('error', end);
    out.on('response', end);
    out.on('upgrade', (response, far, first) => {
      far.on('error', end);
      far.on('close', end);
      near.on('close', () => far.destroy());
      const headers = Object.entries(response.headers).map(([name, value]) => `${name}: ${value}\r\n`).join('');
      near.write(`HTTP/1.1 101 Switching Protocols\r\n${headers}\r\n`);
      near.write(first);
      far.write(head);
      near.pipe(far).pipe(near);
    });
    out.end();
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    agent.destroy();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    served,
    remove: (url) => servers.splice(servers.indexOf(url), 1),
  };
}
