#!/bin/bash
x=(1 2); echo ${#x[@]} {{ nonexistent }} {% raw %} $(( 1 )) "'"
