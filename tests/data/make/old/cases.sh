#!/bin/bash
# usage: W=scratch K4=jars-of-4.4.0 OUT=output [SEED=1] cases.sh CASE...    (see README.md)
SEED=${SEED:-1}
. "$(dirname "$0")/lib.sh"
zk_start
trap 'kill -KILL $ZKPID $BPID 2>/dev/null' EXIT
COMPACT="cleanup.policy=compact min.cleanable.dirty.ratio=0.01"
T=1480000000000

# ---- 0.8.2.2: magic 0 ----
case_082_codecs() {
  begin 0.8.2.2 codecs; broker
  topic plain 1; topic gzip 1; topic snappy 1; topic lz4 1; topic nulls 1; topic segs 1 segment.bytes=700; topic dots.and-dash_x 2; topic mixed 1; topic big 1
  make plain 0 $SEED batches=3 per=4 kind=text
  for c in gzip snappy lz4; do make $c 0 $SEED codec=$c batches=4 per=6 kind=text,json,same,bin nulls=5; done
  make nulls 0 $SEED codec=none,gzip batches=4 per=4 keys=0 kind=bin,text nulls=3
  make segs 0 $SEED codec=none,snappy,gzip batches=12 per=3 kind=same,json
  make dots.and-dash_x 1 $SEED batches=2 per=3
  make mixed 0 $SEED codec=none,gzip,snappy,lz4 batches=8 per=5 kind=json,bin
  make big 0 $SEED codec=snappy batches=1 per=11 kind=big; make big 0 $((SEED+1)) codec=lz4 batches=1 per=22 kind=big
  sink; stop; finish
}
# the 0.8.2 cleaner writes the survivors of wrappers as plain messages
case_082_compact() {
  begin 0.8.2.2 compact; broker
  topic compact 1 $COMPACT segment.bytes=500 file.delete.delay.ms=500
  topic keepdel 1 $COMPACT segment.bytes=500
  topic tombs 1 $COMPACT segment.bytes=400 file.delete.delay.ms=500 delete.retention.ms=1
  make compact 0 $SEED batches=10 per=4 keys=7 kind=text,json nulls=6
  make keepdel 0 $SEED batches=8 per=3 keys=5 kind=json
  make tombs 0 $SEED batches=12 per=3 keys=5 kind=json nulls=2 pause=500
  sleep 6
  topic compactgz 1 $COMPACT segment.bytes=500 file.delete.delay.ms=500
  make compactgz 0 $SEED codec=gzip batches=10 per=4 keys=7 kind=text,json
  sleep 3
  sink; stop; finish
}
# kill -KILL while producing; what the dir looks like then, what the broker makes of it
case_082_killed() {
  begin 0.8.2.2 killed; broker
  topic plain 1; topic gzip 1; topic segs 1 segment.bytes=600
  make gzip 0 $SEED codec=gzip batches=4 per=5 kind=json
  make segs 0 $SEED batches=8 per=3 kind=text,same
  sleep 1.5
  EXEC=1 make plain 0 $SEED batches=200 per=3 kind=text pause=60 2>/dev/null & local mp=$!
  sleep 3; killit; kill -KILL $mp 2>/dev/null; wait $mp 2>/dev/null
  cp -a "$D/data" "$D/killed"
  broker; sink; stop
  finish "$D/killed"
  CASE=killed-recovered; finish "$D/data"
  # the same, with tails as a power loss may leave them
  begin 0.8.2.2 torn; rm -rf "$D/data"; cp -a "$W/run/0.8.2.2/killed/killed" "$D/data"; rm -f "$D/data/.lock"
  mkdir -p "$D/expect"
  local last=$(ls "$D/data/segs-0" | grep '\.log$' | tail -1)
  ( cd "$D/data"; for x in "cut plain-0/00000000000000000000.log 9" "zeros gzip-0/00000000000000000000.log 4096" "junk segs-0/$last 50"; do python3 "$here/tweak.py" $x; done ) > "$D/expect/damage.jsonl"
  printf '0\n0\n' > "$D/data/recovery-point-offset-checkpoint"
  cp -a "$D/data" "$D/torn"
  CH=$(sed -n "s|^zookeeper.connect=$ZK||p" "$W/run/0.8.2.2/killed/server.properties")
  broker; sink; stop
  finish "$D/torn"
  CASE=torn-recovered; rm -f "$D/expect/damage.jsonl"; finish "$D/data"
}
# ---- 0.9.0.1: magic 0, cleaner that understands wrappers ----
case_090_compact() {
  begin 0.9.0.1 compact; broker
  for c in none gzip snappy lz4; do topic c-$c 1 $COMPACT segment.bytes=700 file.delete.delay.ms=500
    make c-$c 0 $SEED codec=$c batches=14 per=5 keys=12 kind=text,json nulls=7; done
  sleep 6; sink; stop; finish
}
# ---- 0.10.0.1: format changed, then compacted (KAFKA-4298): wrapper and inner magic differ, or the cleaner dies ----
case_0100_up()   { mixedinner 0.10.0.1 format-up   0.9.0  0.10.0; }
case_0101_up()   { mixedinner 0.10.1.0 format-up   0.9.0  0.10.1; }
case_0101_down() { mixedinner 0.10.1.0 format-down 0.10.1 0.9.0; }
mixedinner() {
  begin $1 $2; EXTRA='log.cleaner.enable=false\n'; broker
  for c in gzip lz4; do topic fmt-$c 1 $COMPACT segment.bytes=700 file.delete.delay.ms=500 message.format.version=$3
    make fmt-$c 0 $SEED codec=$c batches=8 per=5 keys=12 kind=text,json nulls=7 ts=$T; alter fmt-$c message.format.version=$4; done
  stop; EXTRA=''; sleep 3; broker
  for c in gzip lz4; do make fmt-$c 0 $((SEED+5)) codec=$c batches=5 per=5 keys=6 kind=text,json ts=$T; done
  sleep 4; sink; stop; grep -A3 'kafka-log-cleaner-thread-0\], Error' "$D/broker.log" | cut -d' ' -f3- > "$D/expect/cleaner-error.txt"; cat "$D/expect/cleaner-error.txt"; finish
}
# ---- 0.10.2.2: magic 1 ----
case_0102_codecs() {
  begin 0.10.2.2 codecs; broker
  for c in none gzip snappy lz4; do topic ct-$c 1; topic la-$c 1 message.timestamp.type=LogAppendTime; done
  topic segs 1 segment.bytes=800; topic recompress 1 compression.type=lz4; topic nots 1; topic nulls 1; topic dots.and-dash_x 2
  for c in none gzip snappy lz4; do
    make ct-$c 0 $SEED codec=$c batches=4 per=6 ts=$T kind=text,json,same,bin nulls=5
    make la-$c 0 $SEED codec=$c batches=3 per=5 ts=$T kind=text,json
  done
  make segs 0 $SEED codec=none,snappy,gzip batches=12 per=3 ts=$T kind=same,json
  make recompress 0 $SEED codec=none,gzip batches=4 per=4 ts=$T
  make nulls 0 $SEED codec=none,lz4 batches=4 per=4 ts=$T keys=0 nulls=3 kind=bin
  make dots.and-dash_x 1 $SEED batches=2 per=3
  topic big 1; make big 0 $SEED codec=snappy batches=1 per=4 kind=big ts=$T      # 1 KiB snappy blocks (KAFKA-5236)
  jv 0.8.2.2 Make $BS nots 0 $SEED codec=none,gzip batches=4 per=3     # an 0.8.2 client: no timestamps
  commit group-1 ct-none 0 3 7 11; commit group-2 la-gzip 0 5
  sink; stop; finish
}
case_0102_compact() {
  begin 0.10.2.2 compact; broker
  for c in none gzip snappy lz4; do topic c1-$c 1 $COMPACT segment.bytes=900 file.delete.delay.ms=500; done
  for c in gzip lz4; do topic c0-$c 1 $COMPACT segment.bytes=800 file.delete.delay.ms=500 message.format.version=0.9.0; done
  topic cla-gzip 1 $COMPACT segment.bytes=800 message.timestamp.type=LogAppendTime
  for t in c1-none c1-gzip c1-snappy c1-lz4 c0-gzip c0-lz4 cla-gzip; do make $t 0 $SEED codec=${t#*-} batches=14 per=5 keys=12 kind=text,json nulls=7 ts=$T; done
  sleep 6; sink; stop; finish
}
case_0102_formats() {
  begin 0.10.2.2 formats; broker
  topic old0 1 message.format.version=0.9.0 segment.bytes=1500
  topic up 1 message.format.version=0.9.0 segment.bytes=1500
  topic down 1 segment.bytes=1500
  topic onefile 1 message.format.version=0.9.0
  for t in old0 up down onefile; do make $t 0 $SEED codec=none,gzip,snappy,lz4 batches=8 per=4 ts=$T kind=text,json,same; done
  alter up message.format.version=0.10.2; alter onefile message.format.version=0.10.2; alter down message.format.version=0.9.0; sleep 1.5
  for t in old0 up down onefile; do make $t 0 $((SEED+5)) codec=none,gzip,snappy,lz4 batches=8 per=4 ts=$((T+90000000)) kind=text,json,same; done
  sink; stop; finish
}
# damage made from codecs/; recovered by the same broker
case_0102_damaged() {
  V=0.10.2.2; CASE=damaged; D=$W/run/$V/$CASE; compile $V; rm -rf "$D"; mkdir -p "$D/data" "$D/expect"
  local s=$OUT/kafka-$V/codecs; echo "== $V damaged"
  for x in "wrongcrc ct-gzip" "innercrc ct-gzip" "wrongcrc-plain ct-none" "cut ct-snappy" "zeros ct-lz4"; do set -- $x; cp -a "$s/data/$2-0" "$D/data/$1-0"; mkdir -p "$D/expect/$1-0"; cp "$s/expect/$2-0/records.jsonl" "$D/expect/$1-0/records-before.jsonl"; done
  cp "$s/data/meta.properties" "$D/data/"
  L=00000000000000000000.log
  ( cd "$D/data"; for x in "crc wrongcrc-0/$L 1" "innercrc innercrc-0/$L 1" "crc wrongcrc-plain-0/$L 7" "cut cut-0/$L 11" "zeros zeros-0/$L 500"; do python3 "$here/tweak.py" $x; done ) > "$D/damage.jsonl"
  for i in 0; do printf '0\n0\n' > "$D/data/recovery-point-offset-checkpoint"; done
  cp -a "$D/data" "$D/damaged"
  begin_keep; broker; for t in wrongcrc innercrc wrongcrc-plain cut zeros; do topic $t 1; done; sleep 2
  sink; stop
  ( cd "$D/data"; python3 - "$D" <<'P'
import json, os, sys
d = sys.argv[1]; r = []
for l in open(d + '/damage.jsonl'):
    x = json.loads(l); f = x['file']; t = f.split('/')[0]
    x['topic_partition'] = t
    x['broker_kept_bytes'] = os.path.getsize(f)
    recs = [json.loads(y) for y in open(d + '/expect/' + t + '/records.jsonl')]
    x['consumer_read_offsets'] = [y['offset'] for y in recs if 'offset' in y]
    x['consumer_error'] = [y for y in recs if 'error' in y]
    r.append(x)
json.dump(r, open(d + '/expect.json', 'w'), indent=1)
P
  )
  for f in "$D"/expect/*/records.jsonl; do mv "$f" "${f%.jsonl}-recovered.jsonl"; done
  finish "$D/damaged"; cp "$D/expect.json" "$OUT/kafka-$V/damaged/expect.json"
}
begin_keep() { CH=/$V-$CASE-$RANDOM; EXTRA=""; }
# ---- 1.1.1 / 0.11.0.3: magic 1 then 2, transactions, epochs ----
case_111_mixed() { v=1.1.1 mixed 1.1; }
case_282_mixed() { v=2.8.2 mixed 2.8; }
mixed() {
  begin $v mixed; broker
  topic m012 1 message.format.version=0.9.0 segment.bytes=1800; topic m12one 1 message.format.version=0.10.2; topic m21 1
  topic cmix 1 message.format.version=0.9.0 $COMPACT segment.bytes=900 file.delete.delay.ms=500
  local q="codec=none,gzip,snappy,lz4 batches=4 per=4 kind=text,json,same"
  make m012 0 $SEED $q ts=$T; make m12one 0 $SEED $q ts=$T; make m21 0 $SEED $q ts=$T headers=1
  make cmix 0 $SEED codec=gzip,none,lz4 batches=6 per=5 keys=14 kind=json nulls=7 ts=$T
  alter m012 message.format.version=0.10.2; alter cmix message.format.version=0.10.2; stop; sleep 3; SETTLE=3 broker
  make m012 0 $((SEED+1)) $q ts=$((T+1000000)); make m12one 0 $((SEED+1)) $q ts=$((T+1000000))
  make cmix 0 $((SEED+1)) codec=gzip,none,snappy batches=6 per=5 keys=11 kind=json nulls=7 ts=$T
  for t in m012 m12one cmix; do alter $t message.format.version=$1; done; alter m21 message.format.version=0.10.2; stop; sleep 3; SETTLE=3 broker
  for t in m012 m12one m21; do make $t 0 $((SEED+2)) $q ts=$((T+2000000)) headers=$t idem=1 2>/dev/null || make $t 0 $((SEED+2)) $q ts=$((T+2000000)); done
  make cmix 0 $((SEED+2)) codec=gzip,none,lz4 batches=9 per=5 keys=8 kind=json nulls=7 ts=$T
  sleep 4; sink; stop; finish
}
case_111_txn() { v=1.1.1 txns; }
case_0110_txn() { v=0.11.0.3 txns; }
case_282_txn() { v=2.8.2 txns; }
txns() {
  begin $v txn; broker
  topic tx 1 segment.bytes=1500; topic txgz 1; topic cut 1 segment.bytes=500; topic idem 1
  txn 1 none tx CACAEC tid-a; txn 2 gzip txgz CAAC tid-b; txn 3 lz4 tx AAC tid-a
  make idem 0 $SEED codec=none,snappy batches=4 per=3 idem=1 ts=$T headers=1
  make cut 0 $SEED batches=9 per=3 ts=$T kind=text
  if [ $v != 0.11.0.3 ]; then
  echo '{"version":1,"partitions":[{"topic":"cut","partition":0,"offset":11}]}' > "$D/dr.json"
  jv $v kafka.admin.DeleteRecordsCommand --bootstrap-server $BS --offset-json-file "$D/dr.json" > /dev/null 2>&1; fi
  stop; sleep 3; SETTLE=3 broker
  txn 4 none tx CA tid-c; txn 5 none tx CO tid-d
  make tx 0 $SEED batches=2 per=2 ts=$T
  sink; stop; finish
}
# ---- 2.8.2 ----
case_282_codecs() {
  begin 2.8.2 codecs; broker
  for c in none gzip snappy lz4 zstd; do topic ct-$c 1; make ct-$c 0 $SEED codec=$c batches=3 per=6 ts=$T kind=text,json,same,bin nulls=5 headers=1; done
  for c in none zstd; do topic la-$c 1 message.timestamp.type=LogAppendTime; make la-$c 0 $SEED codec=$c batches=3 per=4 ts=$T; done
  topic recompress 1 compression.type=zstd; make recompress 0 $SEED codec=none,gzip batches=4 per=4 ts=$T
  topic segs 2 segment.bytes=900; make segs 1 $SEED codec=none,zstd batches=8 per=4 ts=$T idem=1
  topic cz 1 $COMPACT segment.bytes=700 file.delete.delay.ms=500; make cz 0 $SEED codec=zstd,none batches=12 per=5 keys=11 nulls=7 ts=$T kind=json headers=1
  commit group-1 ct-none 0 3 7 11
  # 2.8.2 writes partition.metadata only at the second LeaderAndIsr request: have the controller elected again
  jv 2.8.2 org.apache.zookeeper.ZooKeeperMain -server $ZK delete $CH/controller > /dev/null 2>&1
  sleep 5; make ct-none 0 $((SEED+1)) batches=1 per=2 ts=$T; sink; stop; finish
}
case_282_delete() {
  begin 2.8.2 delete; broker
  topic gone 2 segment.bytes=600; topic stays 1 segment.bytes=600; topic $(printf 'long%.0s' $(seq 60))-x 1
  make gone 0 $SEED batches=5 per=4; make stays 0 $SEED batches=3 per=4; make $(printf 'long%.0s' $(seq 60))-x 0 $SEED batches=1 per=2
  sink; deltopic gone; deltopic $(printf 'long%.0s' $(seq 60))-x; sleep 2; killit; finish
}
# 2.8's early-access KRaft: the metadata log is called @metadata
case_282_kraft() {
  begin 2.8.2 kraft; local cp=$((PORT+3))
  cat > "$D/server.properties" <<P
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$cp
listeners=PLAINTEXT://127.0.0.1:$PORT,CONTROLLER://127.0.0.1:$cp
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$D/data
log.index.size.max.bytes=4096
log.index.interval.bytes=128
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
P
  jv 2.8.2 kafka.tools.StorageTool format -t AAAAAAAAAAAAAAAAAAAAfw -c "$D/server.properties" 2>&1 | grep -v WARN
  EXEC=1 jv 2.8.2 kafka.Kafka "$D/server.properties" >> "$D/broker.log" 2>&1 & BPID=$!
  port_wait $PORT || { tail -3 "$D/broker.log"; exit 1; }; sleep 3
  topic ka 2 segment.bytes=700; topic kb 1; make ka 1 $SEED codec=none,zstd batches=6 per=3 ts=$T; make kb 0 $SEED batches=2 per=2 ts=$T
  sink; stop; finish
}
for c in "$@"; do case_$c; done
