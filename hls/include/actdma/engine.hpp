// The two engines: free-running dataflow regions with stream ports only. One packet in, one packet
// out.
#pragma once

#include "bsr.hpp"
#include "compress.hpp"
#include "decompress.hpp"
#include "finish.hpp"
#include "ingest.hpp"
#include "pool.hpp"
#include "route.hpp"

namespace actdma {

template <int L>
void compress_engine(AxiStream<L>& in, AxiStream<L>& out) {
  static_assert(L == 2 || L == 4 || L == 8 || L == 16, "lanes: 64 to 512 bits");
#pragma HLS INLINE
  Stream<CheckedBeat<L>, kShallow> checked("checked");
  BeatStream<L> head("head"), payload("payload"), packet("packet"), block_payload("block payload");
  RawStream<L> raw("raw"), block_raw("block raw");
  BeatStream<L> pool_raw("pool raw"), pool_payload("pool payload");
  BlockStream<L> copy("copy");
  Stream<PackedBeat<L>, kShallow> packed("packed");
  PlaneStream<L> mask("mask");
  BlockStream<L> data("data");
  Stream<KeptBeat<L>, kShallow> kept("kept");
  Stream<Group, 2> groups("groups");
  Stream<Record, 2> records("records");
  HeaderStream<L> header("header plane");
  BlockStream<L> record("record plane");
  Stream<RecordSizes, 2> sizes("sizes");
  Stream<MaskBeat<L>, kShallow> masks("masks");
  TagStream<L> tags("tag plane");
  PlaneStream<L> literal("literal plane");
  Stream<uint32_t, 2> literals("literals");
  Stream<Passed, 2> passed("passed");
  Stream<Choice, 2> choices("choices");
  Stream<Span<L>, kShallow> spans("spans");
  Stream<Tail, 2> tail("tail");
  Stream<uint8_t, 2> chosen("chosen");
  BeatStream<L> bsr_raw("bsr raw"), bsr_payload("bsr payload");
  VerdictStream block_verdict("block verdict"), pool_verdict("pool verdict");
  VerdictStream bsr_verdict("bsr verdict");
  ACTDMA_PROCESS(input_crc<L, true>(in, checked));
  ACTDMA_PROCESS(ingest<L>(checked, head, raw, tail));
  ACTDMA_PROCESS(route(raw, chosen, block_raw, pool_raw, bsr_raw));
  ACTDMA_PROCESS(compact_beats<L>(block_raw, copy, packed));
  ACTDMA_PROCESS(pack<L>(packed, mask, data, kept, masks, passed));
  ACTDMA_PROCESS(gather_groups<L>(kept, groups));
  ACTDMA_PROCESS(make_records(groups, records));
  ACTDMA_PROCESS(pack_records<L>(records, header, record, sizes));
  ACTDMA_PROCESS(tag_masks<L>(masks, tags, literal, literals));
  ACTDMA_PROCESS(choose(passed, sizes, literals, choices));
  ACTDMA_PROCESS(join<L>(choices, tags, literal, mask, header, record, data, copy, spans));
  ACTDMA_PROCESS(squeeze<L>(spans, block_payload, block_verdict));
#if ACTDMA_POOL
  ACTDMA_PROCESS(pool_compress<L>(pool_raw, pool_payload, pool_verdict));
#else
  ACTDMA_PROCESS(absent<L>(pool_raw, pool_payload, pool_verdict));
#endif
#if ACTDMA_BSR
  ACTDMA_PROCESS(bsr_compress<L>(bsr_raw, bsr_payload, bsr_verdict));
#else
  ACTDMA_PROCESS(absent<L>(bsr_raw, bsr_payload, bsr_verdict));
#endif
  ACTDMA_PROCESS(merge<L>(chosen, payload, block_payload, pool_payload, bsr_payload));
  ACTDMA_PROCESS(concatenate<L>(head, payload, packet));
  ACTDMA_PROCESS(
      finish<L, kCompressor>(packet, tail, out, block_verdict, pool_verdict, bsr_verdict));
  ACTDMA_REGION_END();
}

template <int L>
void decompress_engine(AxiStream<L>& in, AxiStream<L>& out) {
  static_assert(L == 2 || L == 4 || L == 8 || L == 16, "lanes: 64 to 512 bits");
#pragma HLS INLINE
  Stream<CheckedBeat<L>, kShallow> checked("checked");
  Stream<RoutedBeat<L>, kShallow> payload("payload");
  BeatStream<L> block_payload("block payload"), block_raw("block raw"), raw("raw");
  BeatStream<L> pool_payload("pool payload"), pool_raw("pool raw");
  BeatStream<L> restored("restored"), untagged("untagged");
  PlaneStream<L> mask("mask"), data("data"), record("record plane"), literal("literal plane");
  TagStream<L> tags("tag plane");
  HeaderStream<L> header("header plane");
  Stream<Job, 2> job("job");
  Stream<Plan, 4> plan("plan");
  Stream<RecordPlan, 4> record_plan("record plan");
  Stream<Header12, 4> header_list("headers");
  Stream<Record, 2> records("records");
  Stream<Group, 2> groups("groups");
  Stream<TagPlan, 4> tag_plan("tag plan");
  Stream<Agreement, 2> records_agree("records agree"), tags_agree("tags agree");
  Stream<Move, kShallow> moves("moves");
  Stream<Tail, 2> tail("tail");
  Stream<uint8_t, 2> chosen("chosen");
  BeatStream<L> bsr_raw("bsr raw"), bsr_payload("bsr payload");
  VerdictStream block_verdict("block verdict"), pool_verdict("pool verdict");
  VerdictStream bsr_verdict("bsr verdict");
  ACTDMA_PROCESS(input_crc<L, false>(in, checked));
  ACTDMA_PROCESS(ingest_frame<L>(checked, job, payload, tail));
  ACTDMA_PROCESS(route(payload, chosen, block_payload, pool_payload, bsr_payload));
  ACTDMA_PROCESS(parse<L>(job, block_payload, plan, tag_plan, record_plan, tags, literal, mask,
                          header, record, data));
  ACTDMA_PROCESS(untag_masks<L>(tag_plan, tags, literal, untagged, tags_agree));
  ACTDMA_PROCESS(headers<L>(record_plan, header, header_list));
  ACTDMA_PROCESS(fetch<L>(header_list, record, records, records_agree));
  ACTDMA_PROCESS(restore_groups(records, groups));
  ACTDMA_PROCESS(group_beats<L>(groups, restored));
  ACTDMA_PROCESS(spread<L>(plan, mask, untagged, moves, records_agree, tags_agree, block_verdict));
  ACTDMA_PROCESS(place<L>(moves, data, restored, block_raw));
#if ACTDMA_POOL
  ACTDMA_PROCESS(pool_decompress<L>(pool_payload, pool_raw, pool_verdict));
#else
  ACTDMA_PROCESS(absent<L>(pool_payload, pool_raw, pool_verdict));
#endif
#if ACTDMA_BSR
  ACTDMA_PROCESS(bsr_decompress<L>(bsr_payload, bsr_raw, bsr_verdict));
#else
  ACTDMA_PROCESS(absent<L>(bsr_payload, bsr_raw, bsr_verdict));
#endif
  ACTDMA_PROCESS(merge<L>(chosen, raw, block_raw, pool_raw, bsr_raw));
  ACTDMA_PROCESS(
      finish<L, kDecompressor>(raw, tail, out, block_verdict, pool_verdict, bsr_verdict));
  ACTDMA_REGION_END();
}

}  // namespace actdma
