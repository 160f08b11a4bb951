// The peer: a plain socket.io server, WebSocket only, without compression.
// node --expose-gc server.js PORT PING_INTERVAL_MS PING_TIMEOUT_MS [recovery]
import { createServer } from "node:http";
import { Server } from "socket.io";

const [port, pingInterval, pingTimeout] = process.argv.slice(2, 5).map(Number);
const recovery = process.argv[5] === "recovery";

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
  ...(recovery && { connectionStateRecovery: { maxDisconnectionDuration: 120_000 } }),
});

io.on("connection", (socket) => {
  socket.on("message-with-ack", (...args) => {
    const ack = args.pop();
    ack(...args);
  });
});

// What b7 needs of the chat: following a session, and a run that goes to all who
// follow it. Deltas have the form that the scripted gateway gives them.
const chat = io.of("/chat-run");

chat.on("connection", (socket) => {
  socket.on("resume", ({ session_id }) => {
    socket.join(session_id);
    socket.emit("resumed", { session_id });
  });
  socket.on("run", ({ session_id, input }) => {
    socket.join(session_id);
    const [, n, rate] = input.match(/\[\[load (\d+) (\d+)\]\]/).map(Number);
    stream(chat.to(session_id), session_id, n, rate);
  });
});

function stream(room, session_id, n, rate) {
  const start = Date.now();
  const stamp = BigInt(start) * 1_000_000n;
  let sent = 0;
  room.emit("message.delta", { event: "message.delta", session_id, delta: "load " });
  const timer = setInterval(() => {
    const due = Math.min(n, ((Date.now() - start) * rate) / 1000);
    for (; sent < due; sent++) {
      const delta = `${stamp + BigInt(sent)} load 0123456789`;
      room.emit("message.delta", { event: "message.delta", session_id, delta });
    }
    if (sent === n) {
      clearInterval(timer);
      room.emit("run.completed", { event: "run.completed", session_id });
    }
  }, 10);
}

http.listen(port, "127.0.0.1");
