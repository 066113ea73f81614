; Philox4x64-10: the words that `micrograd_core.ops.standard.random` specifies, in the middle of a loop. A block of the
; generator is eight numbers of 32 bits. So a loop does not make them one by one: it fills memory of its own with the
; words of the blocks `begin .. end` after a place, four each, just before they are needed, and reads them there. Loops
; that take numbers in another order fill it with one block for each. A place has the counter's words and the key's.
define internal void @micrograd.draw(ptr noalias %out, i64 %begin, i64 %end, ptr noalias readonly %place) nounwind noinline {
entry:
  %p1 = getelementptr i64, ptr %place, i64 1
  %p2 = getelementptr i64, ptr %place, i64 2
  %p3 = getelementptr i64, ptr %place, i64 3
  %p4 = getelementptr i64, ptr %place, i64 4
  %p5 = getelementptr i64, ptr %place, i64 5
  %c0 = load i64, ptr %place
  %c1 = load i64, ptr %p1
  %c2 = load i64, ptr %p2
  %c3 = load i64, ptr %p3
  %key0 = load i64, ptr %p4
  %key1 = load i64, ptr %p5
  br label %block

block:
  %n = phi i64 [ %begin, %entry ], [ %n.next, %write ]
  %to = phi ptr [ %out, %entry ], [ %to.next, %write ]
  %more = icmp slt i64 %n, %end
  br i1 %more, label %count, label %done

count:
  %x0 = add i64 %c0, %n
  %carry0 = icmp ult i64 %x0, %c0
  %add1 = zext i1 %carry0 to i64
  %y0 = add i64 %c1, %add1
  %carry1 = icmp ult i64 %y0, %c1
  %add2 = zext i1 %carry1 to i64
  %z0 = add i64 %c2, %add2
  %carry2 = icmp ult i64 %z0, %c2
  %add3 = zext i1 %carry2 to i64
  %w0 = add i64 %c3, %add3
  br label %round

round:
  %i = phi i64 [ 0, %count ], [ %i.next, %round ]
  %x = phi i64 [ %x0, %count ], [ %x.next, %round ]
  %y = phi i64 [ %y0, %count ], [ %low1, %round ]
  %z = phi i64 [ %z0, %count ], [ %z.next, %round ]
  %w = phi i64 [ %w0, %count ], [ %low0, %round ]
  %k0 = phi i64 [ %key0, %count ], [ %k0.next, %round ]
  %k1 = phi i64 [ %key1, %count ], [ %k1.next, %round ]
  %x.wide = zext i64 %x to i128
  %z.wide = zext i64 %z to i128
  %product0 = mul i128 %x.wide, $multiplier0
  %product1 = mul i128 %z.wide, $multiplier1
  %upper0 = lshr i128 %product0, 64
  %upper1 = lshr i128 %product1, 64
  %high0 = trunc i128 %upper0 to i64
  %high1 = trunc i128 %upper1 to i64
  %low0 = trunc i128 %product0 to i64
  %low1 = trunc i128 %product1 to i64
  %mixed0 = xor i64 %high1, %y
  %mixed1 = xor i64 %high0, %w
  %x.next = xor i64 %mixed0, %k0
  %z.next = xor i64 %mixed1, %k1
  %k0.next = add i64 %k0, $weyl0
  %k1.next = add i64 %k1, $weyl1
  %i.next = add nuw nsw i64 %i, 1
  %again = icmp ult i64 %i.next, 10
  br i1 %again, label %round, label %write, !llvm.loop !0

write:
  %to1 = getelementptr i64, ptr %to, i64 1
  %to2 = getelementptr i64, ptr %to, i64 2
  %to3 = getelementptr i64, ptr %to, i64 3
  store i64 %x.next, ptr %to
  store i64 %low1, ptr %to1
  store i64 %z.next, ptr %to2
  store i64 %low0, ptr %to3
  %n.next = add nsw i64 %n, 1
  %to.next = getelementptr i64, ptr %to, i64 4
  br label %block

done:
  ret void
}

!0 = distinct !{!0, !{!"llvm.loop.unroll.full"}}
