// A RakNet server on jsp-raknet that echoes every message. Usage: jsp_server.js PORT
'use strict'

const { Server } = require('jsp-raknet')
const EncapsulatedPacket = require('jsp-raknet/js/protocol/EncapsulatedPacket').default
const ServerName = require('jsp-raknet/js/utils/ServerName').default
const { obey, tell } = require('./lines')

const reliableOrdered = 3

const server = new Server('127.0.0.1', Number(process.argv[2]), new ServerName())

server.on('openConnection', () => tell('joined'))
server.on('encapsulated', (packet, address) => {
  tell('received', { payload: packet.buffer.toString('hex') })
  const answer = new EncapsulatedPacket()
  answer.reliability = packet.reliability ?? reliableOrdered // the library loses it for a message in parts
  answer.buffer = packet.buffer
  server.connections.get(address.hash).addEncapsulatedToQueue(answer)
})
server.listen().then(() => tell('listening'))
obey()
