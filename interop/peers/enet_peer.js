// An ENet peer on npm's enet, the C library 1.3 compiled to JavaScript. A server echoes every message.
// Usage: enet_peer.js PORT client|server [DATA]; DATA is the data of the Connect. Each peer has 4 channels.
'use strict'

const enet = require('enet')
const { obey, tell } = require('./lines')

const channels = 4
const interval = 2 // ms between two looks at the socket
const flags = { unreliable: 0, reliable: 1, unsequenced: 2 }
const modes = ['unreliable', 'reliable', 'unsequenced']
const port = Number(process.argv[2])
const isServer = process.argv[3] === 'server'
let peer

function hexOf (data) {
  return (data >>> 0).toString(16).padStart(8, '0')
}

function send (to, channel, payload, mode) {
  to.send(channel, new enet.Packet(payload, mode))
}

function meet (one, data) {
  peer = one
  tell(isServer ? 'joined' : 'connected', { payload: hexOf(data) })
  one.on('disconnect', data => tell(isServer ? 'left' : 'disconnected', { payload: hexOf(data) }))
  one.on('message', (packet, channel) => {
    const payload = packet.data()
    const mode = packet.flags() & 3
    tell('received', { channel, mode: modes[mode], payload: payload.toString('hex') })
    if (isServer) send(one, channel, payload, mode)
  })
}

if (isServer) {
  enet.createServer({ address: new enet.Address('127.0.0.1', port), peers: 200, channels }, (err, host) => {
    if (err) throw err
    host.on('connect', meet)
    host.start(interval)
    tell('listening')
  })
} else {
  enet.createClient({ peers: 1, channels }, (err, host) => {
    if (err) throw err
    host.connect(new enet.Address('127.0.0.1', port), channels, Number(process.argv[4]), (err, one) => {
      if (err) throw err
      meet(one, 0)
    })
    host.start(interval)
  })
}

const goodbye = command => peer.disconnectLater(parseInt(command.payload, 16))
obey({
  send: command => send(peer, command.channel, Buffer.from(command.payload, 'hex'), flags[command.mode]),
  leave: goodbye,
  kick: goodbye
})
