#!/bin/sh
# Plays the demo for the recording docs/pictures/demo.svg. make recording runs it in a terminal of 80 columns.
echo '$ tidegate demo --for 8s --loss 5% --delay 20ms'
exec ./tidegate demo --for 8s --loss 5% --delay 20ms
