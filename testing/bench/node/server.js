// The peer: a plain socket.io server, WebSocket only, without compression.
// node --expose-gc server.js PORT PING_INTERVAL_MS PING_TIMEOUT_MS
import { createServer } from "node:http";
import { Server } from "socket.io";

const [port, pingInterval, pingTimeout] = process.argv.slice(2).map(Number);

const http = createServer((request, response) => {
  if (request.url === "/gc") {
    globalThis.gc();
    response.end();
    return;
  }
  response.writeHead(404).end();
});

const io = new Server(http, {
  transports: ["websocket"],
  perMessageDeflate: false,
  serveClient: false,
  pingInterval,
  pingTimeout,
});

io.on("connection", (socket) => {
  socket.on("message-with-ack", (...args) => {
    const ack = args.pop();
    ack(...args);
  });
});

http.listen(port, "127.0.0.1");
