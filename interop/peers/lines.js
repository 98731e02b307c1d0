// The protocol between a peer and its test: commands on stdin, events on stdout, one JSON object per line.
'use strict'

const readline = require('readline')

// tell writes one event.
function tell (event, fields = {}) {
  process.stdout.write(JSON.stringify({ event, ...fields }) + '\n')
}

// obey runs commands until stdin ends, which ends the process.
function obey (commands = {}) {
  const lines = readline.createInterface({ input: process.stdin })
  lines.on('line', line => {
    const command = JSON.parse(line)
    commands[command.do](command)
  })
  lines.on('close', () => process.exit(0))
}

module.exports = { tell, obey }
