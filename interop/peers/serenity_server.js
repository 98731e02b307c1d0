// A RakNet server on @serenityjs/raknet that echoes every message. Usage: serenity_server.js PORT
'use strict'

const { Frame, Priority, Reliability, Server } = require('@serenityjs/raknet')
const { obey, tell } = require('./lines')

const server = new Server({ address: '127.0.0.1', port: Number(process.argv[2]), message: 'serenity' })

server.on('connect', () => tell('joined'))
server.on('disconnect', () => tell('left'))
server.on('encapsulated', (connection, payload) => {
  tell('received', { payload: payload.toString('hex') })
  const frame = new Frame()
  frame.reliability = Reliability.ReliableOrdered
  frame.orderChannel = 0
  frame.payload = payload
  connection.sendFrame(frame, Priority.Immediate)
})
server.socket.on('listening', () => tell('listening'))
server.start()
obey()
