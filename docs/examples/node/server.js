// An express application.
const express = require("express");

const app = express();
app.get("/", (request, response) => {
  const target = process.env.TARGET || "World";
  response.type("text/plain").send(`Hello ${target}, from Node, ${process.env.K_REVISION || "-"}\n`);
});
const server = app.listen(Number(process.env.PORT || 8080));

// The first process of a container gets no signal that it does not handle. Requests that have begun are finished.
process.on("SIGTERM", () => {
  server.close(() => process.exit(0));
  server.closeIdleConnections?.();
});
