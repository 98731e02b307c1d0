// A RakNet client on raknet-node (rust-raknet), which sends nothing but reliable ordered messages. Usage:
// rust_client.js PORT
'use strict'

const { RaknetClient } = require('raknet-node')
const { obey, tell } = require('./lines')

let client

async function play (port) {
  client = await RaknetClient.connect('127.0.0.1:' + port)
  tell('connected')
  try {
    for (;;) tell('received', { payload: (await client.recv()).toString('hex') })
  } catch {
    tell('disconnected')
  }
}

play(process.argv[2])
obey({
  send: command => client.send(Buffer.from(command.payload, 'hex')),
  leave: () => client.close()
})
