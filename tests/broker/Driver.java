// Drives the real Kafka 4.4 for tests, all in one JVM: its log loader, its dump tool, and brokers.
// Reads one command a line, its words parted by tabs, and answers each with one line of JSON: what it found, or {"thrown": ...}.
//
//   load DIR LOG_START CLEAN INTERVAL   opens a partition directory as a broker that starts; CLEAN: whether it had stopped in order
//   dump FILE,FILE..                    what kafka-dump-log says of them
//   format PROPERTIES CLUSTER_ID        formats the directories of a broker
//   start NAME PROPERTIES               starts a broker that is its own controller, or a part of a cluster
//   stop NAME                           stops it in order
//   create BOOT TOPIC REPLICAS KEY=VALUE.. makes a topic of one partition (REPLICAS: 1 or 1:2:3)
//   records BOOT TOPIC ISOLATION        all records from the beginning: [offset, timestamp, key, value], base64 or null
//   produce BOOT TOPIC COUNT            appends records
//   offsets BOOT TOPIC                  earliest and latest offset, and the log end of each replica
//   abort BOOT TOPIC                    ends the open transactions, as kafka-transactions.sh abort does; how many there were
//   reassign BOOT TOPIC REPLICAS        moves the partition to other replicas, and waits until they are in sync
//   fill BOOT TOPIC COUNT WORD KEYS     appends records WORD 0, WORD 1 .. with that many different keys, one batch each
//   configure BOOT TOPIC KEY=VALUE..    changes a topic's configuration
//   delete-records BOOT TOPIC OFFSET    moves the log start
//   delete-topic BOOT TOPIC             deletes a topic
//   partitions BOOT TOPIC COUNT         gives it more partitions
//   leader BOOT TOPIC BROKER ISR        waits until the broker leads the partition, and the in-sync replicas are those (1:2)

import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.time.Duration;
import java.util.*;
import java.util.stream.*;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.*;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;
import org.apache.kafka.tools.DumpLogSegments;

public class Driver {
    static final PrintStream out = System.out;
    static final Map<String, KafkaRaftServer> servers = new HashMap<>();
    static KafkaScheduler scheduler;

    public static void main(String[] a) throws Exception {
        System.setOut(System.err);
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            String answer;
            try {
                answer = run(line.split("\t"));
            } catch (Throwable t) {
                t.printStackTrace();
                answer = "{\"thrown\":" + q(t + (t.getCause() == null ? "" : ", caused by " + t.getCause())) + "}";
            }
            out.println(answer);
            out.flush();
        }
        for (var server : servers.values()) server.shutdown();
        Runtime.getRuntime().halt(0);
    }

    static String run(String[] w) throws Exception {
        return switch (w[0]) {
            case "load" -> load(new File(w[1]), Long.parseLong(w[2]), Boolean.parseBoolean(w[3]), w[4]);
            case "dump" -> dump(w[1]);
            case "format" -> format(w[1], w[2]);
            case "start" -> start(w[1], w[2]);
            case "stop" -> stop(w[1]);
            case "create" -> create(w[1], w[2], w[3], Arrays.copyOfRange(w, 4, w.length));
            case "records" -> records(w[1], w[2], w[3]);
            case "produce" -> produce(w[1], w[2], Integer.parseInt(w[3]));
            case "offsets" -> offsets(w[1], w[2]);
            case "abort" -> abort(w[1], w[2]);
            case "reassign" -> reassign(w[1], w[2], w[3]);
            case "fill" -> fill(w[1], w[2], Integer.parseInt(w[3]), w[4], Integer.parseInt(w[5]));
            case "configure" -> configure(w[1], w[2], Arrays.copyOfRange(w, 3, w.length));
            case "delete-records" -> deleteRecords(w[1], w[2], Long.parseLong(w[3]));
            case "delete-topic" -> deleteTopic(w[1], w[2]);
            case "partitions" -> partitions(w[1], w[2], Integer.parseInt(w[3]));
            case "leader" -> awaitLeader(w[1], w[2], Integer.parseInt(w[3]), w[4]);
            default -> throw new IllegalArgumentException(w[0]);
        };
    }

    static String q(Object o) {
        var s = new StringBuilder("\"");
        for (char c : String.valueOf(o).toCharArray()) {
            if (c == '"' || c == '\\') s.append('\\').append(c);
            else if (c < ' ') s.append(String.format("\\u%04x", (int) c));
            else s.append(c);
        }
        return s.append('"').toString();
    }

    static String load(File dir, long logStart, boolean clean, String interval) throws Exception {
        if (scheduler == null) {
            scheduler = new KafkaScheduler(1);
            scheduler.startup();
        }
        var config = new LogConfig(Map.of("segment.index.bytes", "65536", "index.interval.bytes", interval));
        UnifiedLog log = UnifiedLog.create(dir, config, logStart, clean ? Long.MAX_VALUE : 0, scheduler, new BrokerTopicStats(), Time.SYSTEM,
            900_000, new ProducerStateManagerConfig(Integer.MAX_VALUE, false), 600_000, new LogDirFailureChannel(10), clean, Optional.empty());
        var segments = log.logSegments().stream().map(s -> "[" + s.baseOffset() + "," + s.size() + "]").collect(Collectors.joining(","));
        String answer = "{\"logStart\":" + log.logStartOffset() + ",\"logEnd\":" + log.logEndOffset() 
            + ",\"firstUnstable\":" + log.producerStateManager().firstUnstableOffset().map(o -> o.messageOffset).orElse(-1L) + ",\"segments\":[" + segments + "],\"batches\":[" + batches(log) + "]}";
        log.close();
        return answer;
    }

    /** What a consumer gets, as [base offset, last offset, records]. */
    static String batches(UnifiedLog log) throws Exception {
        var got = new ArrayList<String>();
        for (long next = log.logStartOffset(); next < log.logEndOffset(); ) {
            long before = next;
            for (var b : log.read(next, 1 << 24, FetchIsolation.LOG_END, true).records.batches()) {
                if (b.lastOffset() < next) continue;
                b.ensureValid();
                int n = 0;
                for (var r : b) {
                    r.ensureValid();
                    n++;
                }
                got.add("[" + b.baseOffset() + "," + b.lastOffset() + "," + n + "]");
                next = b.lastOffset() + 1;
            }
            if (next == before) break;
        }
        return String.join(",", got);
    }

    static String dump(String files) {
        var text = new ByteArrayOutputStream();
        var to = new PrintStream(text, true, StandardCharsets.UTF_8);
        PrintStream err = System.err, before = System.out;
        System.setOut(to);
        System.setErr(to);
        try {
            DumpLogSegments.main(new String[]{"--files", files, "--deep-iteration"});
        } catch (Throwable t) {
            to.println("thrown " + t);
        } finally {
            System.setOut(before);
            System.setErr(err);
        }
        return "{\"text\":" + q(text.toString(StandardCharsets.UTF_8)) + "}";
    }

    static String format(String properties, String cluster) {
        var text = new ByteArrayOutputStream();
        int code = kafka.tools.StorageTool$.MODULE$.execute(new String[]{"format", "-t", cluster, "-c", properties}, new PrintStream(text, true));
        return "{\"code\":" + code + ",\"text\":" + q(text) + "}";
    }

    static String start(String name, String properties) throws Exception {
        var p = new Properties();
        try (var r = new FileReader(properties)) { p.load(r); }
        var server = new KafkaRaftServer(KafkaConfig.fromProps(p), Time.SYSTEM);
        server.startup();
        servers.put(name, server);
        return "{}";
    }

    static String stop(String name) {
        var server = servers.remove(name);
        server.shutdown();
        server.awaitShutdown();
        return "{}";
    }

    static Admin admin(String boot) {
        return Admin.create(Map.of("bootstrap.servers", boot));
    }

    static List<Integer> ids(String replicas) {
        return Arrays.stream(replicas.split(":")).map(Integer::valueOf).toList();
    }

    static String create(String boot, String topic, String replicas, String[] configs) throws Exception {
        try (var admin = admin(boot)) {
            var map = Arrays.stream(configs).collect(Collectors.toMap(c -> c.split("=")[0], c -> c.split("=")[1]));
            var result = admin.createTopics(List.of(new NewTopic(topic, Map.of(0, ids(replicas))).configs(map)));
            result.all().get();
            String id = result.topicId(topic).get().toString();
            while (leader(admin, topic) == null) Thread.sleep(50);
            return "{\"id\":" + q(id) + "}";
        }
    }

    static org.apache.kafka.common.Node leader(Admin admin, String topic) throws Exception {
        try {
            return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().get(0).leader();
        } catch (java.util.concurrent.ExecutionException e) {
            return null;
        }
    }

    static String records(String boot, String topic, String isolation) throws Exception {
        var tp = new TopicPartition(topic, 0);
        var got = new ArrayList<String>();
        Map<String, Object> config = Map.of("bootstrap.servers", boot, "isolation.level", isolation, "check.crcs", "true");
        try (var consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(tp));
            consumer.seekToBeginning(List.of(tp));
            long end = consumer.endOffsets(List.of(tp)).get(tp), until = System.currentTimeMillis() + 20_000;
            while (consumer.position(tp) < end) {
                if (System.currentTimeMillis() > until) throw new IllegalStateException("at " + consumer.position(tp) + " of " + end);
                for (var r : consumer.poll(Duration.ofMillis(100)))
                    got.add("[" + r.offset() + "," + r.timestamp() + "," + base64(r.key()) + "," + base64(r.value()) + "]");
            }
        }
        return "{\"records\":[" + String.join(",", got) + "]}";
    }

    static String base64(byte[] b) {
        return b == null ? "null" : q(Base64.getEncoder().encodeToString(b));
    }

    static String produce(String boot, String topic, int count) throws Exception {
        try (var producer = new KafkaProducer<>(Map.of("bootstrap.servers", boot, "acks", "all"), new ByteArraySerializer(), new ByteArraySerializer())) {
            long last = -1;
            for (int i = 0; i < count; i++) {
                byte[] value = ("more " + i).getBytes(StandardCharsets.UTF_8);
                last = producer.send(new ProducerRecord<>(topic, 0, 1_700_000_000_000L + i, ("key " + i).getBytes(StandardCharsets.UTF_8), value)).get().offset();
            }
            return "{\"last\":" + last + "}";
        }
    }

    static String offsets(String boot, String topic) throws Exception {
        var tp = new TopicPartition(topic, 0);
        try (var admin = admin(boot)) {
            long earliest = admin.listOffsets(Map.of(tp, OffsetSpec.earliest())).all().get().get(tp).offset();
            long latest = admin.listOffsets(Map.of(tp, OffsetSpec.latest())).all().get().get(tp).offset();
            var partition = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().get(0);
            var nodes = admin.describeCluster().nodes().get().stream().map(n -> n.id()).sorted().toList();
            var sizes = admin.describeLogDirs(nodes).allDescriptions().get().entrySet().stream()
                .map(e -> q(e.getKey()) + ":" + e.getValue().values().stream().map(d -> d.replicaInfos().get(tp)).filter(Objects::nonNull)
                    .map(r -> String.valueOf(r.size())).findFirst().orElse("null")).collect(Collectors.joining(","));
            return "{\"earliest\":" + earliest + ",\"latest\":" + latest + ",\"leader\":" + (partition.leader() == null ? -1 : partition.leader().id())
                + ",\"isr\":" + partition.isr().stream().map(n -> n.id()).sorted().toList() + ",\"bytes\":{" + sizes + "}}";
        }
    }

    static String abort(String boot, String topic) throws Exception {
        var tp = new TopicPartition(topic, 0);
        int count = 0;
        try (var admin = admin(boot)) {
            for (var p : admin.describeProducers(List.of(tp)).partitionResult(tp).get().activeProducers()) {
                if (p.currentTransactionStartOffset().isEmpty()) continue;
                // As the tool does: a coordinator epoch that was never seen is 0.
                int coordinator = Math.max(0, p.coordinatorEpoch().orElse(0));
                admin.abortTransaction(new AbortTransactionSpec(tp, p.producerId(), (short) p.producerEpoch(), coordinator)).all().get();
                count++;
            }
        }
        return "{\"aborted\":" + count + "}";
    }

    static String reassign(String boot, String topic, String replicas) throws Exception {
        var tp = new TopicPartition(topic, 0);
        try (var admin = admin(boot)) {
            admin.alterPartitionReassignments(Map.of(tp, Optional.of(new NewPartitionReassignment(ids(replicas))))).all().get();
            long until = System.currentTimeMillis() + 15_000;
            while (!admin.listPartitionReassignments(Set.of(tp)).reassignments().get().isEmpty()) {
                if (System.currentTimeMillis() > until) throw new IllegalStateException("not in sync after 15 s");
                Thread.sleep(100);
            }
        }
        return "{}";
    }

    // Events: what tests/events_broker.rs has a broker do to its files.

    static String fill(String boot, String topic, int count, String word, int keys) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", boot, "acks", "1", "enable.idempotence", "false");
        try (var producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            long last = -1;
            for (int i = 0; i < count; i++) {
                byte[] key = ("key " + i % keys).getBytes(StandardCharsets.UTF_8), value = (word + " " + i).getBytes(StandardCharsets.UTF_8);
                last = producer.send(new ProducerRecord<>(topic, 0, key, value)).get().offset();
            }
            return "{\"last\":" + last + "}";
        }
    }

    static String configure(String boot, String topic, String[] configs) throws Exception {
        try (var admin = admin(boot)) {
            var resource = new org.apache.kafka.common.config.ConfigResource(org.apache.kafka.common.config.ConfigResource.Type.TOPIC, topic);
            Collection<AlterConfigOp> ops = Arrays.stream(configs)
                .map(c -> new AlterConfigOp(new ConfigEntry(c.split("=")[0], c.split("=")[1]), AlterConfigOp.OpType.SET)).toList();
            admin.incrementalAlterConfigs(Map.of(resource, ops)).all().get();
        }
        return "{}";
    }

    static String deleteRecords(String boot, String topic, long offset) throws Exception {
        try (var admin = admin(boot)) {
            admin.deleteRecords(Map.of(new TopicPartition(topic, 0), RecordsToDelete.beforeOffset(offset))).all().get();
        }
        return "{}";
    }

    static String deleteTopic(String boot, String topic) throws Exception {
        try (var admin = admin(boot)) {
            admin.deleteTopics(List.of(topic)).all().get();
        }
        return "{}";
    }

    static String partitions(String boot, String topic, int count) throws Exception {
        try (var admin = admin(boot)) {
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(count))).all().get();
        }
        return "{}";
    }

    static String awaitLeader(String boot, String topic, int leader, String isr) throws Exception {
        Object seen = null;
        for (long until = System.currentTimeMillis() + 20_000; System.currentTimeMillis() < until; Thread.sleep(50)) {
            try (var admin = admin(boot)) {
                var partition = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().get(0);
                seen = partition;
                boolean leads = partition.leader() != null && partition.leader().id() == leader;
                if (leads && partition.isr().stream().map(n -> n.id()).sorted().toList().equals(ids(isr))) return "{}";
            } catch (java.util.concurrent.ExecutionException e) {
                seen = e;
            }
        }
        throw new IllegalStateException(String.valueOf(seen));
    }
}
