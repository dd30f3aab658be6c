//! Encoding, validation and replacement of tensor map fields.

use ptx_sim::tensormap::{DataType, DecodeError, EncodeError, Field, L2Promotion, OobFill, Swizzle, TensorMap};

fn base() -> TensorMap {
    TensorMap {
        address: 0xa_0000_0000,
        data_type: DataType::Bf16,
        rank: 3,
        dims: [1 << 32, 77, 3, 1, 1],
        strides: [(1 << 40) - 16, 4096, 0, 0],
        box_dims: [64, 256, 1, 1, 1],
        element_strides: [1, 8, 1, 1, 1],
        swizzle: Swizzle::B128,
        l2_promotion: L2Promotion::B256,
        oob_fill: OobFill::Nan,
    }
}

#[test]
fn bytes_round_trip() {
    for data_type in DataType::ALL {
        for swizzle in Swizzle::ALL {
            for (l2_promotion, oob_fill) in [
                (L2Promotion::None, OobFill::Zero),
                (L2Promotion::B64, OobFill::Nan),
                (L2Promotion::B128, OobFill::Zero),
            ] {
                let map = TensorMap { data_type, swizzle, l2_promotion, oob_fill, ..base() };
                assert_eq!(TensorMap::from_bytes(&map.to_bytes()), Ok(map));
            }
        }
    }
}

#[test]
fn any_changed_byte_is_noticed() {
    let good = base().to_bytes();
    for i in 0..good.len() {
        let mut bad = good;
        bad[i] ^= 0x40;
        let error = TensorMap::from_bytes(&bad).unwrap_err();
        assert_eq!(matches!(error, DecodeError::NotATensorMap { .. }), i < 4, "byte {i}: {error}");
    }
    assert!(TensorMap::from_bytes(&[0; 128]).unwrap_err().to_string().contains("cuTensorMapEncodeTiled"));
}

#[test]
fn every_rule_has_its_error() {
    assert_eq!(base().validate(), Ok(()));
    type Case = (fn(&mut TensorMap), fn(&EncodeError) -> bool);
    let cases: Vec<Case> = vec![
        (|m| m.rank = 0, |e| matches!(e, EncodeError::Rank { rank: 0 })),
        (|m| m.rank = 6, |e| matches!(e, EncodeError::Rank { rank: 6 })),
        (|m| m.address += 8, |e| matches!(e, EncodeError::Address { .. })),
        (|m| m.dims[2] = 0, |e| matches!(e, EncodeError::Dim { index: 2, value: 0 })),
        (|m| m.dims[0] = (1 << 32) + 1, |e| matches!(e, EncodeError::Dim { index: 0, .. })),
        (|m| m.strides[0] = 1 << 40, |e| matches!(e, EncodeError::Stride { index: 0, .. })),
        (|m| m.strides[1] = 4104, |e| matches!(e, EncodeError::Stride { index: 1, value: 4104 })),
        (|m| m.box_dims[1] = 0, |e| matches!(e, EncodeError::BoxDim { index: 1, value: 0 })),
        (|m| m.box_dims[1] = 257, |e| matches!(e, EncodeError::BoxDim { index: 1, value: 257 })),
        (|m| m.box_dims[0] = 4, |e| matches!(e, EncodeError::InnerBox { bytes: 8 })),
        (|m| m.box_dims[0] = 72, |e| matches!(e, EncodeError::SwizzleSpan { bytes: 144, swizzle: Swizzle::B128 })),
        (|m| m.swizzle = Swizzle::B32, |e| matches!(e, EncodeError::SwizzleSpan { bytes: 128, .. })),
        (|m| m.element_strides[2] = 0, |e| matches!(e, EncodeError::ElementStride { index: 2, value: 0 })),
        (|m| m.element_strides[1] = 9, |e| matches!(e, EncodeError::ElementStride { index: 1, value: 9 })),
        (|m| m.data_type = DataType::U16, |e| matches!(e, EncodeError::FillNeedsFloat { data_type: DataType::U16 })),
    ];
    for (i, (change, expected)) in cases.into_iter().enumerate() {
        let mut map = base();
        change(&mut map);
        let error = map.validate().expect_err("must be refused");
        assert!(expected(&error), "case {i}: {error}");
        assert!(error.to_string().len() > 20);
    }
    // Fields beyond the rank do not matter.
    let mut map = base();
    (map.dims[4], map.box_dims[4], map.element_strides[4], map.strides[3]) = (0, 999, 0, 3);
    assert_eq!(map.validate(), Ok(()));
}

#[test]
fn replace_sets_one_field_and_checks_its_range() {
    let mut m = base();
    m.replace(Field::GlobalAddress, 0, 0xb000).unwrap();
    m.replace(Field::Rank, 0, 1).unwrap();
    m.replace(Field::GlobalDim, 1, 9).unwrap();
    m.replace(Field::GlobalDim, 0, 0).unwrap();
    m.replace(Field::GlobalStride, 0, 160).unwrap();
    m.replace(Field::BoxDim, 0, 16).unwrap();
    m.replace(Field::ElementStride, 1, 2).unwrap();
    m.replace(Field::ElemType, 0, 10).unwrap();
    m.replace(Field::SwizzleMode, 0, 1).unwrap();
    m.replace(Field::FillMode, 0, 0).unwrap();
    m.replace(Field::InterleaveLayout, 0, 0).unwrap();
    m.replace(Field::SwizzleAtomicity, 0, 0).unwrap();
    assert_eq!((m.address, m.rank, m.dims[1], m.dims[0], m.strides[0]), (0xb000, 2, 9, 1 << 32, 160));
    assert_eq!(
        (m.box_dims[0], m.element_strides[1], m.data_type, m.swizzle, m.oob_fill),
        (16, 2, DataType::Bf16, Swizzle::B32, OobFill::Zero)
    );
    for (field, ordinal, value) in [
        (Field::Rank, 0, 5),
        (Field::BoxDim, 5, 1),
        (Field::BoxDim, 0, 300),
        (Field::GlobalStride, 4, 16),
        (Field::ElementStride, 0, 9),
        (Field::ElemType, 0, 13),
        (Field::InterleaveLayout, 0, 1),
        (Field::SwizzleMode, 0, 4),
        (Field::SwizzleAtomicity, 0, 2),
        (Field::FillMode, 0, 2),
    ] {
        let e = m.replace(field, ordinal, value).unwrap_err();
        assert_eq!((e.field, e.ordinal, e.value), (field, ordinal, value));
    }
}

#[test]
fn fill_patterns() {
    let fill = |data_type, oob_fill| TensorMap { data_type, oob_fill, ..base() }.fill_pattern();
    assert_eq!(fill(DataType::Bf16, OobFill::Zero), 0);
    assert_eq!(fill(DataType::F16, OobFill::Nan), 0x7fff);
    assert_eq!(fill(DataType::Tf32, OobFill::Nan), 0x7fff_ffff);
    assert!(f64::from_bits(fill(DataType::F64, OobFill::Nan)).is_nan());
}
