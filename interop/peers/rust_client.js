// A RakNet client on raknet-node (rust-raknet), which sends only reliable ordered messages. With "ping" it asks for the
// server list text instead. Usage: rust_client.js PORT [ping]
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

// Each send waits for the earlier one, since the library may reorder them.
let sent = Promise.resolve()

async function ask (port) {
  const answer = await RaknetClient.ping('127.0.0.1:' + port)
  tell('ponged', { payload: Buffer.from(JSON.stringify(answer, (_, v) => typeof v === 'bigint' ? String(v) : v)).toString('hex') })
}

if (process.argv[3] === 'ping') ask(process.argv[2])
else play(process.argv[2])
obey({
  send: command => { sent = sent.then(() => client.send(Buffer.from(command.payload, 'hex'))) },
  leave: () => client.close()
})
