#!/bin/sh
! grep -n -i 'simply\|just' -- "$1"
