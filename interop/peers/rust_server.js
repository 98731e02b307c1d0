// A RakNet server on raknet-node (rust-raknet) that echoes every message. Usage: rust_server.js PORT
'use strict'

const { RaknetServer } = require('raknet-node')
const { obey, tell } = require('./lines')

async function echo (connection) {
  tell('joined')
  try {
    for (;;) {
      const payload = await connection.recv()
      tell('received', { payload: payload.toString('hex') })
      await connection.send(payload)
    }
  } catch {
    tell('left')
  }
}

async function serve (port) {
  const server = await RaknetServer.bind('127.0.0.1:' + port)
  tell('listening')
  for (;;) echo(await server.accept())
}

serve(process.argv[2])
obey()
