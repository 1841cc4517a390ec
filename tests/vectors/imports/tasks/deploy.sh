#!/bin/sh
echo shipped
