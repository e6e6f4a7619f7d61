#!/bin/bash
# A real Kafka broker for benchmarks and examples: KRaft, one node, loopback only.
#
#   broker.sh start DIR          starts a broker on DIR/data (made at first) and waits until it answers
#   broker.sh stop DIR           stops it in order, so that DIR/data is closed as a broker closes it
#   broker.sh java CLASS ARG...  runs a class of Kafka, or a .java file, with Kafka's classpath
#
# DIR also gets server.properties, broker.log and broker.pid. Settings by environment:
#   PORT       the broker's port (default 29392; the next one is the controller's)
#   KV         Kafka's version (default 4.4.0), fetched with Maven into KAFKA_LIB
#   KAFKA_LIB  a directory of Kafka's jars (default $XDG_CACHE_HOME/topicfs-benches/kafka-VERSION)
#   EXTRA      more lines for server.properties
#   HEAP       the JVM's heap (default 1g for the broker)
# Needs a JDK 17 or later and, for the first time, Maven.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PORT=${PORT:-29392}
KV=${KV:-4.4.0}
KAFKA_LIB=${KAFKA_LIB:-${XDG_CACHE_HOME:-$HOME/.cache}/topicfs-benches/kafka-$KV}

java_kafka() {
    if [ ! -d "$KAFKA_LIB" ]; then
        echo "fetching Kafka $KV" >&2
        mvn -B -q -f "$here/pom.xml" dependency:copy-dependencies -Dkv="$KV" -DoutputDirectory="$KAFKA_LIB.part" >&2
        mv "$KAFKA_LIB.part" "$KAFKA_LIB"
    fi
    exec java -Xmx"${HEAP:-1g}" -Dfile.encoding=UTF-8 "-Dlog4j2.configurationFile=$here/log4j2.xml" -cp "$KAFKA_LIB/*" "$@"
}

configure() { # DIR
    cat >"$1/server.properties" <<P
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:$PORT,CONTROLLER://127.0.0.1:$((PORT + 1))
advertised.listeners=PLAINTEXT://127.0.0.1:$PORT
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:$((PORT + 1))
log.dirs=$1/data
auto.create.topics.enable=false
log.retention.ms=-1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
metadata.max.idle.interval.ms=0
${EXTRA:-}
P
}

answers() { (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; }

start() { # DIR
    local dir
    dir=$(mkdir -p "$1" && cd "$1" && pwd)
    configure "$dir"
    if [ ! -e "$dir/data/meta.properties" ]; then
        (java_kafka kafka.tools.StorageTool format -t topicfsTopicfsTopicfsQ -c "$dir/server.properties") >"$dir/format.log" 2>&1
    fi
    (java_kafka kafka.Kafka "$dir/server.properties") >>"$dir/broker.log" 2>&1 &
    echo $! >"$dir/broker.pid"
    for _ in $(seq 300); do
        answers && return
        kill -0 "$(cat "$dir/broker.pid")" 2>/dev/null || break
        sleep 0.2
    done
    tail -20 "$dir/broker.log" >&2
    echo "the broker of $dir did not come up" >&2
    return 1
}

stop() { # DIR
    local pid
    pid=$(cat "$1/broker.pid")
    kill -TERM "$pid"
    while kill -0 "$pid" 2>/dev/null; do sleep 0.2; done
    rm "$1/broker.pid"
}

case ${1:-} in
    start | stop) "$1" "$2" ;;
    java) shift && java_kafka "$@" ;;
    *) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
esac
