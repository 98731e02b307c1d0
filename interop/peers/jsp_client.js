// A RakNet client on jsp-raknet, which connects, or asks for the server list text. Usage: jsp_client.js PORT [ping]
'use strict'

const { Client } = require('jsp-raknet')
const EncapsulatedPacket = require('jsp-raknet/js/protocol/EncapsulatedPacket').default
const { obey, tell } = require('./lines')

const unreliable = 0
const reliableOrdered = 3

const client = new Client('127.0.0.1', Number(process.argv[2]))
let connection

client.on('connected', established => {
  connection = established
  tell('connected')
})
client.on('encapsulated', packet => tell('received', { payload: packet.buffer.toString('hex') }))
client.on('disconnect', () => tell('disconnected'))
client.on('error', reason => tell('refused', { reason }))
const asks = process.argv[3] === 'ping'
if (asks) client.ping(text => tell('ponged', { payload: Buffer.from(String(text)).toString('hex') }))
else client.connect()

// The library asks once. If the question or the answer is lost, it waits for ever.
const asking = setInterval(() => {
  if (connection || asks) clearInterval(asking)
  else if (!client.connection) client.sendConnectionRequest()
}, 500)

obey({
  send: command => {
    const packet = new EncapsulatedPacket()
    packet.reliability = command.reliable ? reliableOrdered : unreliable
    packet.buffer = Buffer.from(command.payload, 'hex')
    connection.addEncapsulatedToQueue(packet)
  },
  leave: () => client.close('leaving')
})
