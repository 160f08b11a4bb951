// A network between client and edge that can be cut.

import { connect, createServer } from 'node:net';

/** openLink forwards connections to the edge; cut() breaks all of them without a closing word. */
export async function openLink(t, edgeUrl) {
  const { hostname, port } = new URL(edgeUrl);
  const sockets = new Set();
  const server = createServer((near) => {
    const far = connect(Number(port), hostname);
    for (const [socket, other] of [[near, far], [far, near]]) {
      sockets.add(socket);
      socket.on('error', () => other.destroy());
      socket.on('close', () => {
        sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const cut = () => sockets.forEach((socket) => socket.resetAndDestroy());
  t.after(() => {
    cut();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}`, cut };
}
